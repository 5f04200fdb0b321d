// Where a model's end-of-text tokens are found, and what is refused.
#include "train/end_tokens.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EndTokensTest : public testing::Test {
  protected:
    void SetUp() override {
        for (const char* file : {"config.json", "model.safetensors"})
            std::filesystem::copy_file(std::filesystem::path(CLEAVE_GOLDEN) / "models" / "gpt2" / file, folder_ / file);
    }
    std::vector<Token> tokens() const { return end_tokens(WeightsSource(folder_.path()), tokenizer_); }
    void set_config(const Json& value) const {
        Json config = Json::parse(read_all(folder_ / "config.json"), "config.json");
        write_all(folder_ / "config.json", config.set("eos_token_id", value).dump());
    }
    void set_generation(const std::string& text) const { write_all(folder_ / "generation_config.json", text); }

    ScratchFolder folder_;
    Tokenizer tokenizer_ = Tokenizer::bpe(read_bpe(std::filesystem::path(CLEAVE_GOLDEN) / "tokenizers" / "gpt2.json"));
};

TEST_F(EndTokensTest, TheFirstFileThatSaysSoThenTheTokenizer) {
    EXPECT_THAT(tokens(), IsEmpty()) << "no tokenizer.json";
    std::filesystem::copy_file(std::filesystem::path(CLEAVE_GOLDEN) / "tokenizers" / "gpt2.json",
                               folder_ / "tokenizer.json");
    EXPECT_THAT(tokens(), ElementsAre(tokenizer_.added_token("<|endoftext|>").value()));
    set_config(7);
    EXPECT_THAT(tokens(), ElementsAre(7));
    set_generation("{\"eos_token_id\": [5, 9], \"do_sample\": true}");
    EXPECT_THAT(tokens(), ElementsAre(5, 9));
    set_generation("{\"eos_token_id\": null}");
    EXPECT_THAT(tokens(), ElementsAre(7));
    set_config(2001);  // as many as the tokenizer has: none of them
    EXPECT_THAT(tokens(), ElementsAre(tokenizer_.added_token("<|endoftext|>").value()));
}

TEST_F(EndTokensTest, DamagedFilesAreNamed) {
    std::filesystem::copy_file(std::filesystem::path(CLEAVE_GOLDEN) / "tokenizers" / "gpt2.json",
                               folder_ / "tokenizer.json");
    for (const char* value : {"\"x\"", "-1", "[1, -1]", "{}", "1.5"}) {
        set_generation(std::string("{\"eos_token_id\": ") + value + "}");
        EXPECT_THAT(user_error([&] { tokens(); }),
                    AllOf(HasSubstr("generation_config.json"), HasSubstr("eos_token_id")))
            << value;
    }
    set_generation("{");
    EXPECT_THAT(user_error([&] { tokens(); }), HasSubstr("generation_config.json"));
}

}  // namespace
}  // namespace cleave

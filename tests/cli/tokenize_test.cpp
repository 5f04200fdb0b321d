// `cleave tokenize`, and runs that learn from a tokenizer.json and from token files.
#include <gmock/gmock.h>

#include "base/json.h"
#include "program.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Words = std::vector<std::string>;

class SlowTokenizeTest : public testing::Test {
  protected:
    std::string at(const std::string& name) const { return (folder_ / name).string(); }
    Result run(const Words& words) const {
        Words all{CLEAVE_PROGRAM};
        all.insert(all.end(), words.begin(), words.end());
        return Program(folder_.path(), all, Program::Limits()).wait();
    }
    Result train(const std::string& name, const Words& sets, const Words& more = {}) const {
        Words words{"train", "runs/tiny.toml", "--ranks", "2", "--json"};
        for (const std::string& set :
             {std::string("train.steps=6"), std::string("train.warmup_steps=2"),
              std::string("train.evaluate_batches=1"), std::string("sample.tokens=3"), "run.folder=" + at(name)})
            words.insert(words.end(), {"--set", set});
        for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
        words.insert(words.end(), more.begin(), more.end());
        return run(words);
    }
    Words bpe(const std::string& file) const { return {"data.tokenizer=bpe", "data.tokenizer_file=" + file}; }

    ScratchFolder folder_;
};

constexpr const char* kGpt2 = CLEAVE_SOURCE "/tests/golden/tokenizers/gpt2.json";
constexpr const char* kText = CLEAVE_SOURCE "/examples/data/tiny.txt";

TEST_F(SlowTokenizeTest, EveryFormatTrainsToTheLossOfTheText) {
    const Result text = train("text", bpe(kGpt2));
    ASSERT_EQ(text.exit_code, 0) << text.err;
    const Json expected = *Json::parse(text.out, "text").find("train_loss");
    for (const std::string format : {"cleave", "bin", "megatron"}) {
        const Result written =
            run({"tokenize", kText, "--tokenizer", kGpt2, "-o", at(format + ".bin"), "--format", format, "--json"});
        ASSERT_EQ(written.exit_code, 0) << written.err;
        EXPECT_EQ(*Json::parse(written.out, "tokenize").find("vocabulary"), Json(2001));
        Words sets = bpe(kGpt2);
        sets.push_back("data.path=" + at(format + ".bin"));
        const Result result = train(format, sets);
        ASSERT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(*Json::parse(result.out, format).find("train_loss"), expected) << format;
    }
}

TEST_F(SlowTokenizeTest, TheRunFolderSufficesAndAnotherTokenizerIsRefused) {
    std::filesystem::copy_file(kGpt2, folder_ / "t.json");
    ASSERT_EQ(train("run", bpe(at("t.json"))).exit_code, 0);
    EXPECT_EQ(read_all(folder_ / "run" / "tokenizer.json"), read_all(kGpt2));
    std::filesystem::remove(folder_ / "t.json");
    Words longer = bpe(at("t.json"));
    longer.emplace_back("train.steps=8");
    const Result resumed = train("run", longer, {"--resume"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    const Result generated = run({"generate", at("run"), "--prompt", "the sea", "--tokens", "3"});
    EXPECT_EQ(generated.exit_code, 0) << generated.err;
    EXPECT_THAT(generated.out, testing::StartsWith("the sea"));
    write_all(folder_ / "t.json", read_all(kGpt2) + "\n");
    EXPECT_THAT(train("run", longer, {"--resume"}).err, HasSubstr("data.tokenizer_file"));
}

TEST_F(SlowTokenizeTest, SaysWhatIsWrong) {
    const auto error = [&](const Words& words) {
        const Result result = run(words);
        EXPECT_EQ(result.exit_code, 2);
        return result.err;
    };
    EXPECT_THAT(error({"tokenize", kText, "--tokenizer", at("none.json"), "-o", at("o.bin")}),
                AllOf(HasSubstr("--tokenizer"), HasSubstr("char, bytes")));
    EXPECT_THAT(error({"tokenize", kText, "-o", at("o.txt")}), HasSubstr("ends in .bin"));
    EXPECT_THAT(error({"tokenize", kText, "-o", at("o.bin"), "--format", "parquet"}),
                HasSubstr("cleave, bin, megatron"));
    EXPECT_THAT(error({"tokenize", at("none.txt"), "-o", at("o.bin")}), HasSubstr("none.txt"));
    EXPECT_THAT(train("x", {"data.tokenizer=bpe"}).err, HasSubstr("data.tokenizer_file: no file is named"));
}

}  // namespace
}  // namespace cleave::test

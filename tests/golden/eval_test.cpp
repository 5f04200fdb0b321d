// `cleave eval` against Transformers in the sliding windows of Hugging Face's guide to perplexity, whose numbers
// tests/golden/make_perplexity.py has written; and against itself on other ranks and in other types.
#include "train/eval_run.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <numbers>

#include "base/json.h"
#include "support/scratch.h"
#include "train/token_writer.h"
#include "train/tokenizer.h"

namespace cleave {
namespace {

using testing::HasSubstr;

class EvalTest : public testing::Test {
  protected:
    EvalTest() : golden_(Json::parse(read_all(folder("perplexity.json")), "perplexity.json")) {
        std::vector<Token> tokens;
        for (const Json& token : *golden_.find("tokens")->items())
            tokens.push_back(static_cast<Token>(*token.integer()));
        write_token_file(scratch_ / "text.bin", TokenFormat::bin, tokens, Tokenizer::ids(47), 0);
        // 47 characters, so that a text stands for the same tokens.
        for (const Token token : tokens) text_ += static_cast<char>('0' + token);
    }
    static std::filesystem::path folder(const std::string& name) {
        return std::filesystem::path(CLEAVE_SOURCE) / "tests" / "golden" / name;
    }
    EvalOptions options(const Json& of) const {
        EvalOptions options;
        options.folder = folder("models") / *of.find("model")->string();
        options.data = (scratch_ / "text.bin").string();
        options.context = *of.find("context")->integer();
        options.stride = *of.find("stride")->integer();
        options.json = true;
        return options;
    }
    static Json evaluated(const EvalOptions& options) {
        testing::internal::CaptureStdout();
        int code = -1;
        std::string out;
        {
            const std::shared_ptr<void> end(nullptr, [&](void*) { out = testing::internal::GetCapturedStdout(); });
            code = run_evaluation(options);
        }
        EXPECT_EQ(code, 0);
        return Json::parse(out, "eval");
    }

    Json golden_;
    ScratchFolder scratch_;
    std::string text_;
};

TEST_F(EvalTest, LossAndPerplexityAreThoseOfTransformers) {
    for (const Json& of : *golden_.find("cases")->items()) {
        const Json result = evaluated(options(of));
        const auto count = *of.find("predicted_tokens")->integer();
        EXPECT_EQ(*result.find("predicted_tokens")->integer(), count);
        const double loss = of.find("nats")->number() / static_cast<double>(count);
        EXPECT_NEAR(result.find("loss")->number() / loss, 1, 1e-6) << of.dump();
        EXPECT_NEAR(result.find("perplexity")->number() / std::exp(loss), 1, 1e-5) << of.dump();
        EXPECT_TRUE(result.find("bits_per_byte")->is_null()) << "ids without a tokenizer";
    }
}

TEST_F(EvalTest, RanksAndTypesGiveTheSameValue) {
    const Json& of = golden_.find("cases")->items()->at(1);
    EvalOptions one = options(of);
    one.dtype = DType::f64;
    const double expected = evaluated(one).find("loss")->number();
    for (const int ranks : {2, 3, 5}) {
        EvalOptions several = one;
        several.ranks = ranks;
        EXPECT_NEAR(evaluated(several).find("loss")->number(), expected, 1e-12) << ranks;
    }
    for (const auto& [dtype, bound] : {std::pair{DType::f32, 1e-6}, {DType::bf16, 2e-2}}) {
        EvalOptions other = options(of);
        other.dtype = dtype;
        EXPECT_NEAR(evaluated(other).find("loss")->number(), expected, bound * expected) << name_of(dtype);
    }
}

TEST_F(EvalTest, AWindowLongerThanTheTextIsTheText) {
    EvalOptions all = options(golden_.find("cases")->items()->at(3));  // llama3: 512 positions
    all.context = 89;
    all.stride = 89;
    const Json exact = evaluated(all);
    all.context = 512;
    all.stride = 300;
    const Json longer = evaluated(all);
    EXPECT_EQ(*longer.find("windows")->integer(), 1);
    EXPECT_EQ(*longer.find("loss"), *exact.find("loss"));
}

TEST_F(EvalTest, SaysWhatIsWrongAllAtOnce) {
    EvalOptions wrong = options(golden_.find("cases")->items()->at(0));
    wrong.context = 21;  // of 20 positions
    wrong.stride = 22;
    wrong.part = "train";
    wrong.data = "";
    const std::string error = user_error([&] { run_evaluation(wrong); });
    for (const char* part : {"4 problems", "--context: found 21; accepted: from 1 to 20", "--stride: found 22",
                             "--part: found 'train'", "--data: no file is named"})
        EXPECT_THAT(error, HasSubstr(part));
}

}  // namespace
}  // namespace cleave

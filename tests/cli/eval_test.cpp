// `cleave eval` and `cleave generate` as a user runs them: a run's own validation loss again, the text with and without
// the cache, stops, and what is refused.
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "training.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class SlowEvalTest : public SlowTrainingTest {
  protected:
    Result cleave(const Words& words) const {
        Words all{CLEAVE_PROGRAM};
        all.insert(all.end(), words.begin(), words.end());
        return run(all);
    }
    Json json(Words words) const {
        words.emplace_back("--json");
        const Result result = cleave(words);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return Json::parse(result.out, "stdout");
    }
    std::string refused(const Words& words) const {
        const Result result = cleave(words);
        EXPECT_EQ(result.exit_code, 2) << result.out;
        EXPECT_EQ(result.out, "");
        return result.err;
    }
};

TEST_F(SlowEvalTest, TheValidationLossOfARunAgain) {
    const Result trained = run(train("run", {"--json", "--set", "train.dtype=f64"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    const double expected = Json::parse(trained.out, "train").find("validation_loss")->number();
    const Json one = json({"eval", folder("run"), "--part", "validation"});
    EXPECT_NEAR(one.find("loss")->number(), expected, 1e-12);
    EXPECT_NEAR(one.find("perplexity")->number(), std::exp(expected), 1e-10);
    // Characters that are bytes: bits per byte differ from bits per token by the first token alone.
    const double tokens = one.find("predicted_tokens")->number();
    EXPECT_EQ(one.find("bytes")->number(), tokens + 1);
    EXPECT_NEAR(one.find("bits_per_byte")->number(), expected / std::numbers::ln2 * tokens / (tokens + 1), 1e-12);
    EXPECT_NEAR(json({"eval", folder("run"), "--part", "validation", "--ranks", "3"}).find("loss")->number(), expected,
                1e-12);

    // The two parts and the token between them are the whole.
    const Json train = json({"eval", folder("run"), "--part", "train", "--stride", "1", "--context", "4"});
    const Json all = json({"eval", folder("run"), "--stride", "1", "--context", "4"});
    EXPECT_EQ(train.find("predicted_tokens")->number() + tokens + 1, all.find("predicted_tokens")->number());
    const auto text = std::filesystem::file_size(CLEAVE_SOURCE "/examples/data/tiny.txt");
    EXPECT_EQ(all.find("bytes")->number(), static_cast<double>(text));

    // As a token file, which says what made it; and in another type.
    ASSERT_EQ(cleave({"tokenize", "examples/data/tiny.txt", "--tokenizer", "char", "-o", folder("t.bin")}).exit_code,
              0);
    const Json file = json({"eval", folder("run"), "--stride", "1", "--context", "4", "--data", folder("t.bin")});
    for (const char* field : {"loss", "bits_per_byte", "bytes"}) EXPECT_EQ(*file.find(field), *all.find(field));
    const Json f32 = json({"eval", folder("run"), "--part", "validation", "--dtype", "f32"});
    EXPECT_NEAR(f32.find("loss")->number(), expected, 1e-5);
    EXPECT_NE(f32.find("loss")->number(), expected);
    EXPECT_THAT(cleave({"eval", folder("run")}).out, AllOf(StartsWith("loss "), HasSubstr("perplexity"),
                                                           HasSubstr("bits a byte"), HasSubstr("windows of 32")));
}

TEST_F(SlowEvalTest, DocumentsThatTrainingToldApartDoNotSeeEachOther) {
    // Lines are the documents.
    const Words separate{"--set", "train.dtype=f64",      "--set", "data.separate_documents=true",
                         "--set", "data.document_end=\n", "--json"};
    const Result trained = run(train("run", separate));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    const double expected = Json::parse(trained.out, "train").find("validation_loss")->number();
    const Json eval = json({"eval", folder("run"), "--part", "validation"});
    EXPECT_NEAR(eval.find("loss")->number(), expected, 1e-12);
    EXPECT_GT(eval.find("documents")->number(), 10);
    EXPECT_THAT(cleave({"eval", folder("run")}).out, HasSubstr("documents that do not see each other"));

    // Each document by itself (both together fill no window), in a file of its own, is the judge: their labels and
    // losses add up to those of the whole.
    double sum = 0, labels = 0;
    std::string whole;
    for (const char* line : {"First Citizen:\n", "Speak, speak.\n"}) {
        whole += line;
        write_all(folder_ / "one.txt", line);
        const Json one = json({"eval", folder("run"), "--data", folder("one.txt")});
        sum += one.find("loss")->number() * one.find("predicted_tokens")->number();
        labels += one.find("predicted_tokens")->number();
    }
    write_all(folder_ / "all.txt", whole);
    const Json all = json({"eval", folder("run"), "--data", folder("all.txt")});
    EXPECT_EQ(all.find("predicted_tokens")->number(), labels);
    EXPECT_NEAR(all.find("loss")->number(), sum / labels, 1e-10);
}

TEST_F(SlowEvalTest, BadInputIsRefusedByName) {
    ASSERT_EQ(run(train("run", {})).exit_code, 0);
    const std::string made = folder("run");
    for (const auto& [name, text] : {std::pair{"empty.txt", ""},
                                     {"one.txt", "F"},
                                     {"strange.txt", "First \xC3\xA9"},
                                     {"empty.bin", ""},
                                     {"odd.bin", "abc"}})
        write_all(folder_ / name, text);
    write_all(folder_ / "beyond.bin", std::string("\x01\0\xFF\0", 4));
    EXPECT_THAT(refused({"eval"}), HasSubstr("FOLDER"));
    EXPECT_THAT(refused({"eval", folder("nowhere")}), HasSubstr("nowhere"));
    std::filesystem::create_directory(folder_ / "nothing");
    EXPECT_THAT(refused({"eval", folder("nothing")}), HasSubstr("neither a checkpoint"));
    const auto of = [&](const char* file) { return refused({"eval", made, "--data", folder(file)}); };
    EXPECT_THAT(of("none.txt"), AllOf(HasSubstr("--data: there is no file"), HasSubstr("none.txt")));
    EXPECT_THAT(of("nothing"), HasSubstr("is a folder"));
    EXPECT_THAT(of("empty.txt"), HasSubstr("is empty"));
    EXPECT_THAT(of("empty.bin"), HasSubstr("is empty"));
    EXPECT_THAT(of("one.txt"), HasSubstr("has 1 token; accepted: at least 2"));
    EXPECT_THAT(of("strange.txt"), HasSubstr("U+00E9"));
    EXPECT_THAT(of("odd.bin"), HasSubstr("odd.bin"));
    EXPECT_THAT(of("beyond.bin"), AllOf(HasSubstr("token 1 of it is 255"), HasSubstr("ids from 0 to")));
    EXPECT_THAT(refused({"eval", made, "--stride", "0"}), HasSubstr("--stride: found '0'"));
    EXPECT_THAT(refused({"eval", made, "--stride", "33", "--context", "40"}),
                AllOf(HasSubstr("--context: found 40; accepted: from 1 to 32"), Not(HasSubstr("--stride"))));
    EXPECT_THAT(refused({"eval", made, "--stride", "33"}), HasSubstr("--stride: found 33; accepted: from 1 to 32"));
    EXPECT_THAT(refused({"eval", made, "--part", "test"}), HasSubstr("accepted: train, validation, all"));
    EXPECT_THAT(refused({"eval", made, "--dtype", "f16"}), HasSubstr("accepted: f32, bf16, f64"));
    EXPECT_THAT(refused({"eval", "tests/golden/models/gpt2"}), HasSubstr("--data: no file is named"));
    EXPECT_THAT(refused({"eval", "tests/golden/models/gpt2", "--data", "examples/data/tiny.txt"}),
                HasSubstr("has no tokenizer.json"));
    ASSERT_EQ(cleave({"tokenize", "examples/data/tiny.txt", "--tokenizer", "bytes", "-o", folder("b.bin")}).exit_code,
              0);
    EXPECT_THAT(of("b.bin"), HasSubstr("was made with another tokenizer"));
}

TEST_F(SlowEvalTest, TheTextIsTheSameWithoutACacheAndEndsAtAStop) {
    ASSERT_EQ(run(train("run", {"--set", "train.dtype=f64"})).exit_code, 0);
    // Beyond the context of 32 as well.
    const Words words{"generate", folder("run"), "--prompt", "First", "--tokens", "90", "--top-p", "0.9"};
    const auto with = [&](Words more) {
        more.insert(more.begin(), words.begin(), words.end());
        return more;
    };
    const Result shown = cleave(words);
    EXPECT_THAT(shown.out, StartsWith("First"));
    EXPECT_THAT(shown.err, AllOf(HasSubstr("prompt 5 tokens"), HasSubstr("tokens/s"), HasSubstr("ended by length")));
    EXPECT_EQ(cleave(with({"--no-cache"})).out, shown.out);
    const Json whole = json(words);
    const std::string text = *whole.find("text")->string();
    EXPECT_EQ(text + "\n", shown.out);
    EXPECT_EQ(whole.find("tokens")->items()->size(), 90U);
    EXPECT_EQ(*whole.find("ended_by"), Json("length"));

    const std::string stop = text.substr(40, 3);
    const Json stopped = json(with({"--stop", "never", "--stop", stop}));
    EXPECT_EQ(*stopped.find("text"), Json(text.substr(0, text.find(stop, 5))));
    EXPECT_EQ(*stopped.find("ended_by"), Json("stop text"));
    EXPECT_EQ(cleave(with({"--stop", stop})).out, *stopped.find("text")->string() + "\n");

    EXPECT_THAT(refused({"generate", folder("run"), "--stop", "", "--prompt", "\xC3\xA9"}),
                AllOf(HasSubstr("2 problems"), HasSubstr("--stop: found an empty text"), HasSubstr("U+00E9")));
    EXPECT_THAT(refused({"generate", folder("run"), "--top-p", "1.5"}), HasSubstr("--top-p: found '1.5'"));
    EXPECT_THAT(refused({"generate", folder("run"), "--dtype", "half"}), HasSubstr("--dtype"));
}

}  // namespace
}  // namespace cleave::test

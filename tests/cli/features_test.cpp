// Whole runs with what changes the objective or the labels: z-loss, a mask of labels, documents kept apart, counters of
// underflow. What the metrics hold, and that a stopped run ends with the bits of an unbroken one.
#include <gmock/gmock.h>

#include "training.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SlowFeaturesTest : public SlowTrainingTest {
  protected:
    // Bytes of the run file's text, a line a document; two labels in three.
    SlowFeaturesTest() {
        const std::string text = read_all(CLEAVE_SOURCE "/examples/data/tiny.txt");
        write_all(folder_ / "text.txt", text);
        std::string mask;
        for (std::size_t i = 0; i < text.size(); ++i) mask += static_cast<char>(i % 3 == 0 ? 0 : 1);
        write_all(folder_ / "mask", mask);
    }
    Words features(const Words& more = {}) const {
        Words words;
        for (const std::string& set :
             {"data.path=" + folder("text.txt"), std::string("data.tokenizer=bytes"), "data.mask=" + folder("mask"),
              std::string("data.separate_documents=true"), std::string("data.document_end=\n"),
              std::string("train.z_loss=1e-3"), std::string("train.count_underflow=true"),
              std::string("train.dtype=bf16"), std::string("train.microbatch=2")})
            words.insert(words.end(), {"--set", set});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
};

TEST_F(SlowFeaturesTest, AnInterruptedRunEndsWithTheBitsOfAnUnbrokenOne) {
    ASSERT_EQ(run(train("whole", features())).exit_code, 0);
    ASSERT_EQ(interrupt("stopped", train("stopped", features()), 25, SIGINT).exit_code, 130);
    const Result resumed = run(train("stopped", features({"--resume"})));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, Not(HasSubstr("will not equal an unbroken one")));
    expect_same_bits("whole", "stopped");

    int steps = 0;
    for (const Json& line : read_metrics(folder_ / "whole" / "metrics.jsonl")) {
        if (line.find("loss") == nullptr) continue;
        ++steps;
        EXPECT_GT(line.find("z_loss")->number(), 0);
        EXPECT_LT(line.find("z_loss")->number(), 0.1) << "1e-3 times the square of a log-sum-exp of a few units";
        EXPECT_GT(*line.find("labels")->integer(), 0);
        EXPECT_EQ(*line.find("gradients_underflowed")->integer(), 0);
        EXPECT_GT(*line.find("updates_waiting")->integer(), 0);
        EXPECT_NE(line.find("updates_lost"), nullptr);
    }
    EXPECT_EQ(steps, 60);
}

TEST_F(SlowFeaturesTest, OtherLabelsAreAnnouncedWhenARunIsResumed) {
    const Words shorter{"--set", "train.steps=6"};
    ASSERT_EQ(run(train("run", features(shorter))).exit_code, 0);
    write_all(folder_ / "mask", std::string(std::filesystem::file_size(folder_ / "mask"), '\1'));
    const Result resumed = run(train("run", features({"--resume", "--set", "train.steps=8"})));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("will not equal an unbroken one"), HasSubstr("data.mask: the labels")));
}

TEST_F(SlowFeaturesTest, TheDryRunCountsTheDocumentsToo) {
    const Result real = run(train("run", features({"--json", "--set", "train.steps=6"})));
    const Result dry = run(train("dry", features({"--json", "--dry-run"})));
    ASSERT_EQ(real.exit_code, 0) << real.err;
    ASSERT_EQ(dry.exit_code, 0) << dry.err;
    EXPECT_EQ(*Json::parse(real.out, "train").find("peak_bytes"),
              *Json::parse(dry.out, "dry run").find("ranks")->items()->front().find("peak_bytes"));
}

TEST_F(SlowFeaturesTest, UpdatesThatAreLostAreSaidOnce) {
    const Words sets{"--set", "train.steps=6",      "--set", "train.count_underflow=true", "--set", "train.lr=1e-20",
                     "--set", "train.min_lr=1e-20", "--set", "train.weight_decay=0"};
    const Result result = run(train("run", sets));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto first = result.err.find("an update too small to change them in f32");
    ASSERT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("an update too small", first + 1), std::string::npos) << result.err;
    for (const Json& line : read_metrics(folder_ / "run" / "metrics.jsonl"))
        if (line.find("loss") != nullptr) {
            EXPECT_GT(*line.find("updates_lost")->integer(), 10000);
            EXPECT_EQ(line.find("updates_waiting"), nullptr) << "f32 has no other copy";
        }
}

// Optimizer states and reductions in low precision are not to happen unnoticed.
TEST_F(SlowFeaturesTest, TheStartSaysInWhichDTypesThingsAreComputedAndSummed) {
    for (const auto& [dtype, sums] : {std::pair{"f64", "f64"}, {"f32", "f32"}, {"bf16", "f32"}}) {
        const Result result =
            run(train(dtype, {"--set", std::string("train.dtype=") + dtype, "--set", "train.steps=5"}));
        ASSERT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.err,
                    HasSubstr(std::string("compute ") + dtype + ", gradients, optimizer state and reductions " + sums));
    }
}

}  // namespace
}  // namespace cleave::test

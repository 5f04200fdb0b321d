// Whole runs with ZeRO: every stage ends with the bits of stage 0, in threads and over MPI, interrupted or not.
#include <gmock/gmock.h>

#include "training.h"

namespace cleave::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class SlowZeroTest : public SlowTrainingTest {
  protected:
    static Words stage(int number, const Words& more = {}) {
        Words words{"--set", "train.steps=30", "--set", "train.dtype=bf16"};
        if (number > 0) words.insert(words.end(), {"--set", "zero.stage=" + std::to_string(number)});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
};

TEST_F(SlowZeroTest, EveryStageEndsWithTheBitsOfStage0) {
    const Result whole = run(train("0", stage(0)));
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_THAT(whole.err, HasSubstr("batch S(0) along dp, parameters R), 1 thread each"));
    for (int number : {1, 2, 3}) {
        const std::string name = std::to_string(number);
        const Result result = run(train(name, stage(number)));
        ASSERT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.err, HasSubstr("optimizer state S(0) (ZeRO stage " + name + ")"));
        expect_same_bits("0", name);
    }
}

TEST_F(SlowZeroTest, ThreadsAndMpiProcessesAndAnInterruptedRunEndWithTheSameBits) {
    ASSERT_EQ(run(train("threads", stage(3))).exit_code, 0);
    Words mpi{"mpirun", "-n", "2", "--oversubscribe"};
    const Words program = train("mpi", stage(3), "");
    mpi.insert(mpi.end(), program.begin(), program.end());
    const Result result = run(mpi);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect_same_bits("threads", "mpi");
    ASSERT_EQ(interrupt("stopped", train("stopped", stage(3)), 12, SIGINT).exit_code, 130);
    const Result resumed = run(train("stopped", stage(3, {"--resume"})));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, Not(HasSubstr("will not equal an unbroken one")));
    expect_same_bits("threads", "stopped");
}

// Beside a step a run holds one bucket whole, when it begins and for a checkpoint: small ones, beside so small a model.
TEST_F(SlowZeroTest, TheDryRunSaysThePeakThatTheRunMeasures) {
    for (int number : {1, 2, 3}) {
        const std::string name = std::to_string(number);
        Words more = stage(number, {"--json", "--set", "train.microbatch=1", "--set", "train.bucket_bytes=16384"});
        if (number == 3) more.insert(more.end(), {"--set", "zero.group=2"});
        const Result real = run(train("real" + name, more, "4"));
        more.emplace_back("--dry-run");
        const Result dry = run(train("dry" + name, more, "4"));
        ASSERT_EQ(real.exit_code, 0) << real.err;
        const Json measured = Json::parse(real.out, "train");
        const Json planned = Json::parse(dry.out, "dry run");
        EXPECT_EQ(*measured.find("peak_bytes"), *planned.find("ranks")->items()->front().find("peak_bytes"));
    }
}

}  // namespace
}  // namespace cleave::test

// The program among what else a machine has: cores and memory that others limit, readers that go away, launchers.
#include <gmock/gmock.h>

#include <fstream>

#include "support/pattern.h"
#include "training.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SlowMachineTest : public SlowTrainingTest {
  protected:
    Result shell(const std::string& line) const { return run({"sh", "-c", line}); }
    static std::string joined(const Words& words) {
        std::string line;
        for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
        return line;
    }
    // A run of 3 steps.
    std::string short_run(const std::string& name, const std::string& ranks) const {
        return joined(train(name, {"--set", "train.steps=3", "--set", "train.warmup_steps=1"}, ranks));
    }
    static Words mpirun(const Words& words) {
        Words line{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"};
        line.insert(line.end(), words.begin(), words.end());
        return line;
    }
};

TEST_F(SlowMachineTest, WaitingThreadsSpinShortlyUnlessTheUserHasChosen) {
    const std::string shows = "OMP_DISPLAY_ENV=verbose " CLEAVE_PROGRAM " --version";
    const auto last_choice = [&](const std::string& environment) {
        const std::string text = shell("env -u OMP_WAIT_POLICY " + environment + " " + shows).err;
        // GNU's library, LLVM's.
        const auto choices = matches(text, "(GOMP_SPINCOUNT|KMP_BLOCKTIME) ?= ?'([0-9]+)");
        return choices.empty() ? std::string() : choices.back()[2];
    };
    EXPECT_THAT(last_choice(""), testing::AnyOf("1000", "0"));
    EXPECT_EQ(last_choice("GOMP_SPINCOUNT=77 KMP_BLOCKTIME=77"), "77");
    EXPECT_THAT(last_choice("OMP_WAIT_POLICY=active"), Not(testing::AnyOf("1000", "0")));
}

TEST_F(SlowMachineTest, RanksAndThreadsFollowTheAffinityMaskAndTheEnvironment) {
    EXPECT_THAT(shell("OMP_NUM_THREADS=3 " + short_run("three", "1")).err,
                HasSubstr("3 threads each (OMP_NUM_THREADS)"));
    const Result one =
        shell("core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//'); taskset -c $core " + short_run("one", ""));
    EXPECT_THAT(one.err, AllOf(HasSubstr("] 1 rank ("), HasSubstr("1 thread each")));
}

TEST_F(SlowMachineTest, ARunThatDoesNotFitIntoMemoryIsRefusedAtOnceAndPlannedDry) {
    const Words large{"--set", "model.context=64", "--set", "train.batch=16777216"};
    const Result refused = run(train("run", large, "1"));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("not enough memory"), HasSubstr("activations"), HasSubstr("train.microbatch")));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
    Words dry = large;
    dry.emplace_back("--dry-run");
    EXPECT_EQ(run(train("run", dry, "1")).exit_code, 0);
}

TEST_F(SlowMachineTest, AClosedTerminalStopsARunWithACheckpoint) {
    const Result stopped = interrupt("run", train("run", {}), 3, SIGHUP);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("stopping after this step, with a checkpoint"));
    EXPECT_GE(*CheckpointFile(checkpoint("run")).metadata().find("step")->integer(), 1);
}

TEST_F(SlowMachineTest, ARunGoesOnWhenNobodyReadsItsLog) {
    const std::string code = folder("code");
    shell("{ " + joined(train("run", {})) + " >" + folder("result") + "; echo $? >" + code + "; } 2>&1 | head -1");
    EXPECT_EQ(read_all(code), "0\n");
    EXPECT_EQ(lines("run"), 60 + 3 + 1);
}

TEST_F(SlowMachineTest, ASignalThatMpirunHandsOnStopsEveryRankInOrder) {
    const Result stopped = interrupt("run", mpirun(train("run", {"--set", "train.steps=100000"}, "")), 3, SIGUSR1);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
    EXPECT_THAT(stopped.err, AllOf(HasSubstr("stopping after this step"), Not(HasSubstr("was told to end"))));
    EXPECT_THAT(stopped.out, HasSubstr("stopped after step"));
    EXPECT_GE(*CheckpointFile(checkpoint("run")).metadata().find("step")->integer(), 1);
}

TEST_F(SlowMachineTest, WhatHasNoRanksIsRefusedUnderMpirun) {
    const std::vector<std::pair<Words, std::string>> cases{
        {{"config", "--json"}, "`cleave config` runs in one process, but mpirun has started 2"},
        {{"init", folder("my.toml")}, "`cleave init` runs in one process"},
        {{"bench", "all_reduce", "--transport", "inproc"}, "--transport inproc: its ranks are threads of one process"}};
    for (const auto& [arguments, message] : cases) {
        Words words{CLEAVE_PROGRAM};
        words.insert(words.end(), arguments.begin(), arguments.end());
        const Result result = run(mpirun(words));
        EXPECT_EQ(result.exit_code, 2) << result.err;
        EXPECT_THAT(result.err, HasSubstr(message));
        EXPECT_THAT(result.out, Not(HasSubstr("\"keys\"")));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "my.toml"));
}

TEST_F(SlowMachineTest, AnUnknownOperationIsAnsweredWithThoseThatAreMeasured) {
    for (const char* name : {"recv", "sum"}) {
        const Result result = run({CLEAVE_PROGRAM, "bench", name});
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_EQ(result.out, "");
        EXPECT_THAT(result.err, AllOf(HasSubstr(std::string("found '") + name + "'"), HasSubstr("step, matmul"),
                                      HasSubstr("send"), Not(HasSubstr(", recv"))));
    }
}

}  // namespace
}  // namespace cleave::test

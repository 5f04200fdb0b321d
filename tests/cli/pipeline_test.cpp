// Whole runs of pipelines: interrupted, on threads and on MPI, checkpoints that go on elsewhere, what is refused.
#include <gmock/gmock.h>

#include "training.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SlowPipelineRunTest : public SlowTrainingTest {
  protected:
    static Words stages(const std::string& schedule, const Words& more = {}) {
        Words words;
        for (const std::string& set :
             {std::string("mesh.pp=2"), "pipeline.schedule=" + schedule, std::string("train.microbatch=1"),
              std::string("model.layers=4"), std::string("zero.stage=1")})
            words.insert(words.end(), {"--set", set});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
};

TEST_F(SlowPipelineRunTest, AnInterruptedRunEndsWithTheBitsOfAnUnbrokenOne) {
    ASSERT_EQ(run(train("whole", stages("zbv"), "4")).exit_code, 0);
    ASSERT_EQ(interrupt("stopped", train("stopped", stages("zbv"), "4"), 25, SIGINT).exit_code, 130);
    const Result resumed = run(train("stopped", stages("zbv", {"--resume"}), "4"));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    expect_same_bits("whole", "stopped");
}

// Two stages, each a process: also the owners of the tied table, the checkpoint and the sample.
TEST_F(SlowPipelineRunTest, ThreadsAndMpiProcessesEndWithTheSameBits) {
    const Words threads = train("threads", stages("1f1b", {"--set", "train.steps=20"}), "2");
    const Result one = run(threads);
    ASSERT_EQ(one.exit_code, 0) << one.err;
    EXPECT_THAT(one.err, HasSubstr("pp 2: 1f1b, stages with 2+2 layers"));
    Words mpi{"mpirun", "-n", "2", "--oversubscribe"};
    const Words processes = train("processes", stages("1f1b", {"--set", "train.steps=20"}), "");
    mpi.insert(mpi.end(), processes.begin(), processes.end());
    const Result two = run(mpi);
    ASSERT_EQ(two.exit_code, 0) << two.err;
    expect_same_bits("threads", "processes");
}

// The schedule changes the order of work alone: where gradients come in the order of microbatches, not a bit.
TEST_F(SlowPipelineRunTest, SchedulesThatAddInTheSameOrderGiveTheSameBits) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"})
        ASSERT_EQ(run(train(schedule, stages(schedule, {"--set", "train.steps=20"}), "2")).exit_code, 0);
    expect_same_bits("1f1b", "gpipe");
    expect_same_bits("1f1b", "zb-h1");
}

TEST_F(SlowPipelineRunTest, ACheckpointGoesOnWithAnotherNumberOfStages) {
    ASSERT_EQ(run(train("run", stages("1f1b", {"--set", "train.steps=20"}), "4")).exit_code, 0);
    const Result resumed = run(train("run", {"--resume", "--set", "model.layers=4", "--set", "train.steps=30"}, "1"));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resumes after step 20"));
    const Result back = run(train("run", stages("dualpipe", {"--resume", "--set", "train.steps=40"}), "2"));
    ASSERT_EQ(back.exit_code, 0) << back.err;
    EXPECT_THAT(back.err, HasSubstr("resumes after step 30"));
}

TEST_F(SlowPipelineRunTest, ARunFileMayNameAScheduleOfItsOwn) {
    write_file(folder_ / "mine.txt",
               "stages 2\nmicrobatches 8\n"
               "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
               "F0 B0 F1 I1 F2 W1 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
    Words own{"--set", "pipeline.schedule_file=" + folder("mine.txt"), "--set", "train.steps=20"};
    for (const char* set : {"mesh.pp=2", "train.microbatch=1", "model.layers=4", "zero.stage=1"})
        own.insert(own.end(), {"--set", set});
    const Result result = run(train("own", own));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    ASSERT_EQ(run(train("named", stages("1f1b", {"--set", "train.steps=20"}))).exit_code, 0);
    expect_same_bits("named", "own");
    own.insert(own.end(), {"--set", "train.microbatch=2"});
    const Result refused = run(train("refused", own));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("has 8 microbatches, but a step has train.batch / (dp x train.microbatch) = 4"));
}

TEST_F(SlowPipelineRunTest, WhatCannotBeIsRefusedWithWhatCan) {
    const auto refused = [&](const Words& sets, const std::string& ranks) {
        Words words;
        for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
        const Result result = run(train("refused", words, ranks));
        EXPECT_EQ(result.exit_code, 2);
        return result.err;
    };
    EXPECT_THAT(refused({"mesh.pp=4"}, "4"), AllOf(HasSubstr("mesh.pp: found 4"), HasSubstr("model.layers = 2")));
    EXPECT_THAT(refused({"mesh.pp=2", "pipeline.layers=2,1"}, "2"),
                HasSubstr("pipeline.layers: found 3 layers together, but model.layers = 2"));
    EXPECT_THAT(refused({"mesh.pp=2", "pipeline.layers=a"}, "2"), HasSubstr("accepted: the layers of each part"));
    EXPECT_THAT(refused({"mesh.pp=2", "pipeline.schedule=1f2b"}, "2"), HasSubstr("pipeline.schedule: found"));
    EXPECT_THAT(refused({"mesh.pp=2", "pipeline.schedule=dualpipe", "train.microbatch=4"}, "2"),
                HasSubstr("train.microbatch: microbatches in a step"));
    EXPECT_THAT(refused({"pipeline.schedule=gpipe"}, "2"),
                HasSubstr("pipeline.schedule: found \"gpipe\" with mesh.pp = 1"));
    EXPECT_THAT(refused({"mesh.pp=2"}, "3"), AllOf(HasSubstr("mesh.pp: found 2"), HasSubstr("--ranks 2 or 4")));
}

TEST_F(SlowPipelineRunTest, OtherCommandsKnowOfStages) {
    const auto cleave = [&](Words words) {
        words.insert(words.begin(), CLEAVE_PROGRAM);
        for (const char* set : {"mesh.pp=2", "model.layers=4", "train.microbatch=1"})
            words.insert(words.end(), {"--set", set});
        return run(words);
    };
    const Result bench = cleave({"bench", "step", "runs/tiny.toml", "--ranks", "2"});
    EXPECT_EQ(bench.exit_code, 2);
    EXPECT_THAT(bench.err, HasSubstr("mesh.pp: found 2; accepted by bench step: 1"));
    const Result explained = cleave({"explain", "runs/tiny.toml", "--ranks", "2", "--rank", "1"});
    ASSERT_EQ(explained.exit_code, 0) << explained.err;
    EXPECT_THAT(explained.out, AllOf(HasSubstr("pipeline of 2 stages: 1f1b, stages with 2+2 layers"),
                                     HasSubstr("transformer.h.2.ln_1.weight"), HasSubstr("recv"),
                                     testing::Not(HasSubstr("transformer.h.1.ln_1.weight"))));
    const Result dual = cleave({"explain", "runs/tiny.toml", "--ranks", "2", "--set", "pipeline.schedule=dualpipe"});
    EXPECT_EQ(dual.exit_code, 0) << dual.err;
    const Result memory = cleave({"memory", "runs/tiny.toml"});
    ASSERT_EQ(memory.exit_code, 0) << memory.err;
    EXPECT_THAT(memory.out, AllOf(HasSubstr("1f1b, stages with 2+2 layers; 8 microbatches"), HasSubstr("stage 1")));
    const Result proof = cleave({"verify", "runs/tiny.toml", "--ranks", "4", "--set", "pipeline.schedule=zbv"});
    ASSERT_EQ(proof.exit_code, 0) << proof.err;
    EXPECT_THAT(proof.out, HasSubstr("equal: 4 ranks train this model as one rank does"));
}

}  // namespace
}  // namespace cleave::test

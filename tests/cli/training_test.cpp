// Whole runs of the program, stopped, killed, repeated and refused: what they leave, bit for bit.
#include <gmock/gmock.h>

#include <sstream>

#include "support/pattern.h"
#include "training.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SlowResumeTest : public SlowTrainingTest,
                       public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(SlowResumeTest, AnInterruptedRunEndsWithTheBitsOfAnUnbrokenOne) {
    const auto [dtype, ranks] = GetParam();
    const Words more{"--set", std::string("train.dtype=") + dtype};
    Words resume = more;
    resume.emplace_back("--resume");
    ASSERT_EQ(run(train("whole", more, ranks)).exit_code, 0);
    ASSERT_EQ(run(train("again", more, ranks)).exit_code, 0);
    expect_same_bits("whole", "again");

    const Result stopped = interrupt("stopped", train("stopped", more, ranks), 3, SIGINT);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
    const Result resumed = run(train("stopped", resume, ranks));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    expect_same_bits("whole", "stopped");

    // Between the checkpoints of step 20 and 40; the lines after the older one come again.
    const Result killed = interrupt("killed", train("killed", more, ranks), 24, SIGKILL);
    EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
    ASSERT_EQ(run(train("killed", resume, ranks)).exit_code, 0);
    expect_same_bits("whole", "killed");
}

INSTANTIATE_TEST_SUITE_P(Runs, SlowResumeTest,
                         testing::Combine(testing::Values("f32", "bf16"), testing::Values("1", "2")),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param)) + "Dp" + std::get<1>(info.param);
                         });

TEST_F(SlowTrainingTest, ThreadsAndMpiProcessesEndWithTheSameBits) {
    ASSERT_EQ(run(train("threads", {})).exit_code, 0);
    Words mpi{"mpirun", "-n", "2", "--oversubscribe"};
    const Words program = train("mpi", {"--json"}, "");
    mpi.insert(mpi.end(), program.begin(), program.end());
    const Result result = run(mpi);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NO_THROW(Json::parse(result.out, "stdout")) << "another rank prints too: " << result.out;
    expect_same_bits("threads", "mpi");

    mpi.insert(mpi.end(), {"--ranks", "3"});
    const Result refused = run(mpi);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("error (rank 0): --ranks: found 3, but mpirun has started 2 processes"),
                                   testing::Not(HasSubstr("error (rank 1)"))));
}

// The order of samples is a function of (seed, step) alone: in f64, where the order of sums hardly shows, every step
// has the loss of every other layout's, also when the run goes on elsewhere in the middle of its text.
TEST_F(SlowTrainingTest, SamplesDoNotDependOnRanksAccumulationOrResuming) {
    const Words f64{"--set", "train.dtype=f64"};
    const auto with = [&](Words more) {
        more.insert(more.end(), f64.begin(), f64.end());
        return more;
    };
    ASSERT_EQ(run(train("one", f64, "1")).exit_code, 0);
    ASSERT_EQ(run(train("accumulated", with({"--set", "train.microbatch=2"}), "2")).exit_code, 0);
    ASSERT_EQ(run(train("four", f64, "4")).exit_code, 0);
    ASSERT_EQ(interrupt("moved", train("moved", f64, "2"), 25, SIGINT).exit_code, 130);
    ASSERT_EQ(run(train("moved", with({"--resume", "--set", "train.microbatch=1"}), "4")).exit_code, 0);
    const auto expected = read_metrics(folder_ / "one" / "metrics.jsonl");
    for (const char* name : {"accumulated", "four", "moved"}) {
        const auto found = read_metrics(folder_ / name / "metrics.jsonl");
        ASSERT_EQ(found.size(), expected.size()) << name;
        for (std::size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(*found[i].find("step"), *expected[i].find("step"));
            for (const char* loss : {"loss", "train_loss", "validation_loss"})
                if (expected[i].find(loss) != nullptr) {
                    EXPECT_NEAR(found[i].find(loss)->number(), expected[i].find(loss)->number(), 1e-9)
                        << name << ", line " << i;
                }
        }
    }
}

TEST_F(SlowTrainingTest, ASecondCtrlCStopsAtOnceAndLeavesARunToResume) {
    // Long steps, a checkpoint after each: when the second is there, the third step begins, and the signals come in it.
    const Words slow{"--set", "train.batch=1024", "--set", "model.width=128", "--set", "train.checkpoint_every=1"};
    Program program(folder_.path(), train("run", slow), Program::Limits());
    const auto second = folder_ / "run" / "checkpoints" / "step_000000002.ckpt";
    ASSERT_TRUE(program.wait_until([&] { return std::filesystem::exists(second); }));
    program.signal(SIGINT);
    ASSERT_TRUE(program.wait_until([&] { return program.says("stopping after this step, with a checkpoint"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // not the same request said twice
    program.signal(SIGINT);
    const Result result = program.wait();
    EXPECT_EQ(result.exit_code, 130);
    EXPECT_THAT(result.err, HasSubstr("stopped at once, without a checkpoint"));
    EXPECT_EQ(result.out, "") << "the run went on to its end";
    const std::int64_t saved = *CheckpointFile(checkpoint("run")).metadata().find("step")->integer();
    EXPECT_GE(saved, 1);  // the second may not have been marked as the newest yet
    Words resume = slow;
    resume.insert(resume.end(), {"--resume", "--set", "train.steps=" + std::to_string(saved + 4)});
    const Result resumed = run(train("run", resume));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resumes after step " + std::to_string(saved)));
}

// So that lines of several ranks can be merged in the order in which things happened.
TEST_F(SlowTrainingTest, EveryLineOfTheLogCarriesARankAndARisingNumber) {
    const Result result = run(train("run", {"--set", "run.trace_step=2"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string head = R"(^\[[0-9:.]{12} (main|rank [0-9]+) #([0-9]+)\] .*$)";
    std::istringstream stream(result.err);
    int numbered = 0;
    long last = 0;
    for (std::string line; std::getline(stream, line);) {
        if (line.empty() || line.starts_with("step ")) continue;  // the progress line
        const auto found = matches(line, head);
        ASSERT_EQ(found.size(), 1u) << line;
        const long number = std::stol(found[0][2]);
        EXPECT_GE(number, last) << line;  // lines of one text have one number
        numbered += number > last ? 1 : 0;
        last = number;
    }
    EXPECT_GE(numbered, 5);
}

TEST_F(SlowTrainingTest, OtherRanksResumeAndSaySo) {
    EXPECT_EQ(interrupt("run", train("run", {}), 3, SIGINT).exit_code, 130);
    const Result resumed = run(train("run", {"--resume"}, "4"));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("bits may differ"), HasSubstr("dp was 2, is 4")));
}

TEST_F(SlowTrainingTest, ALossThatIsNotFiniteStopsEveryRankAndNamesTheStepAndTheLastCheckpoint) {
    const Result result = run(train("run", {"--set", "train.optimizer=sgd", "--set", "train.lr=1e10", "--set",
                                            "train.clip=0", "--set", "train.checkpoint_every=1"}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    const std::int64_t done = lines("run");
    ASSERT_GE(done, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("step " + std::to_string(done + 1) + ": the "), HasSubstr("nan"),
                                  HasSubstr(checkpoint("run").string() + " stays")));
    EXPECT_EQ(*CheckpointFile(checkpoint("run")).metadata().find("step")->integer(), done);
}

TEST_F(SlowTrainingTest, ASkippedStepSaysWhatWasNotFinite) {
    const Result result = run(train("run", {"--set", "train.optimizer=sgd", "--set", "train.lr=1e10", "--set",
                                            "train.clip=0", "--set", "train.skip_nonfinite=2"}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("loss nan: skipped by all ranks"), Not(HasSubstr("gradient norm 0"))));
}

// timeout(1) signals its child and at once its group, with the child in it.
TEST_F(SlowTrainingTest, SignalsAtOnceAreOneRequest) {
    Program program(folder_.path(), train("run", {"--set", "train.steps=1000000"}), Program::Limits());
    ASSERT_TRUE(program.wait_until([&] { return lines("run") >= 3; }));
    program.signal(SIGTERM);
    program.signal(SIGHUP);
    const Result result = program.wait();
    EXPECT_EQ(result.exit_code, 130) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("stopped at once")));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / "checkpoints" / "latest"));
}

TEST_F(SlowTrainingTest, AFullDiskLeavesTheOlderCheckpointToResumeFrom) {
    ASSERT_EQ(run(train("whole", {})).exit_code, 0);
    ASSERT_EQ(interrupt("run", train("run", {}), 3, SIGINT).exit_code, 130);
    const auto older = checkpoint("run");
    Program::Limits limits;
    limits.file_bytes = std::filesystem::file_size(older) - 1;
    const Result full = run(train("run", {"--resume"}), limits);
    EXPECT_EQ(full.exit_code, 2) << full.err;
    EXPECT_THAT(full.err, AllOf(HasSubstr("cannot write"), HasSubstr(older.string() + " stays")));
    EXPECT_EQ(checkpoint("run"), older);
    ASSERT_EQ(run(train("run", {"--resume"})).exit_code, 0);
    expect_same_bits("whole", "run");
}

TEST_F(SlowTrainingTest, ADamagedCheckpointIsAUserError) {
    ASSERT_EQ(interrupt("run", train("run", {}), 3, SIGINT).exit_code, 130);
    const auto file = checkpoint("run");
    const std::string whole = read_all(file);
    std::string altered = whole;
    altered[whole.size() / 2] = static_cast<char>(altered[whole.size() / 2] ^ 1);
    for (const std::string& bytes : {altered, whole.substr(0, whole.size() / 2), std::string()}) {
        write_all(file, bytes);
        for (const Words& words : {train("run", {"--resume"}), Words{CLEAVE_PROGRAM, "generate", folder("run")}}) {
            const Result result = run(words);
            EXPECT_EQ(result.exit_code, 2);
            EXPECT_THAT(result.err, HasSubstr(file.string()));
        }
    }
}

TEST_F(SlowTrainingTest, AFailedStartLeavesNothingAndOverwriteRemovesOnlyTheRunsOwnFiles) {
    write_all(folder_ / "short.txt", "abc");
    const Words wrong{"--set", "data.path=" + folder("short.txt")};
    EXPECT_EQ(run(train("new/run", wrong)).exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
    std::filesystem::create_directory(folder_ / "empty");
    EXPECT_EQ(run(train("empty", wrong)).exit_code, 2);
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "empty"));

    std::filesystem::create_directories(folder_ / "run" / "checkpoints");
    for (const char* own : {"notes.txt", "checkpoints/best.ckpt"}) write_all(folder_ / "run" / own, "mine");
    write_all(folder_ / "run" / "checkpoints" / "step_000000999.ckpt", "the run's");
    EXPECT_EQ(run(train("run", {})).exit_code, 2);
    ASSERT_EQ(run(train("run", {"--overwrite"})).exit_code, 0);
    for (const char* own : {"notes.txt", "checkpoints/best.ckpt"}) EXPECT_EQ(read_all(folder_ / "run" / own), "mine");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "checkpoints" / "step_000000999.ckpt"));
}

TEST_F(SlowTrainingTest, TheDryRunSaysThePeakThatTheRunMeasures) {
    const Result real = run(train("run", {"--json", "--set", "run.trace_step=2"}));
    const Result dry = run(train("dry", {"--json", "--dry-run"}));
    ASSERT_EQ(real.exit_code, 0) << real.err;
    const Json measured = Json::parse(real.out, "train");
    const Json planned = Json::parse(dry.out, "dry run");
    EXPECT_EQ(*measured.find("peak_bytes"), *planned.find("ranks")->items()->front().find("peak_bytes"));
    EXPECT_NO_THROW(Json::parse(read_all(folder_ / "run" / "trace.json"), "trace"));
    EXPECT_EQ(lines("run"), 60 + 3 + 1);
    EXPECT_THAT(read_all(folder_ / "run" / "loss.svg"), HasSubstr("<svg"));
}

}  // namespace
}  // namespace cleave::test

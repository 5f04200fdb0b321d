// Whole runs of the program, stopped, killed, repeated and refused: what they leave, bit for bit.
#include <gmock/gmock.h>

#include "base/json.h"
#include "program.h"
#include "train/checkpoint_file.h"
#include "train/metrics.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Words = std::vector<std::string>;

class SlowTrainingTest : public testing::Test {
  protected:
    std::string folder(const std::string& name) const { return (folder_ / name).string(); }

    // The command line of a run of 60 steps with a checkpoint every 20.
    Words train(const std::string& name, const Words& more, const std::string& ranks = "2") const {
        Words words{CLEAVE_PROGRAM, "train", "runs/tiny.toml"};
        if (!ranks.empty()) words.insert(words.end(), {"--ranks", ranks});
        for (const char* set : {"train.steps=60", "train.warmup_steps=5", "train.evaluate_every=15",
                                "train.evaluate_batches=1", "train.checkpoint_every=20", "sample.tokens=3"})
            words.insert(words.end(), {"--set", set});
        words.insert(words.end(), {"--set", "run.folder=" + folder(name)});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    Result run(const Words& words, const Program::Limits& limits = Program::Limits()) const {
        return Program(folder_.path(), words, limits).wait();
    }
    std::int64_t lines(const std::string& name) const {
        const std::string text = read_all(folder_ / name / "metrics.jsonl");
        return std::count(text.begin(), text.end(), '\n');
    }
    std::filesystem::path checkpoint(const std::string& name) const {
        return latest_checkpoint(folder_ / name / "checkpoints").value();
    }
    // Every value but times, in the order of the lines.
    std::string losses(const std::string& name) const {
        std::string text;
        for (const Json& line : read_metrics(folder_ / name / "metrics.jsonl"))
            for (const auto& [key, value] : *line.members())
                if (key != "tokens_per_s" && key != "step_time_s") text += key + "=" + value.dump() + " ";
        return text;
    }
    void expect_same_bits(const std::string& a, const std::string& b) const {
        const CheckpointFile first(checkpoint(a));
        const CheckpointFile second(checkpoint(b));
        EXPECT_EQ(first.path().filename(), second.path().filename());
        ASSERT_EQ(first.tensors().size(), second.tensors().size());
        ASSERT_GT(first.tensors().size(), 20U);
        for (std::size_t i = 0; i < first.tensors().size(); ++i) {
            const CheckpointTensor& x = first.tensors()[i];
            const CheckpointTensor& y = second.tensors()[i];
            EXPECT_EQ(x.name, y.name);
            EXPECT_TRUE(std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end())) << x.name;
        }
        EXPECT_EQ(losses(a), losses(b));
    }
    // Runs until `name` has this many lines of metrics, then sends the signal.
    Result interrupt(const std::string& name, const Words& words, std::int64_t at, int signal) const {
        Program program(folder_.path(), words, Program::Limits());
        EXPECT_TRUE(program.wait_until([&] { return lines(name) >= at; }));
        program.signal(signal);
        return program.wait();
    }

    ScratchFolder folder_;
};

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

TEST_F(SlowTrainingTest, OtherRanksResumeAndSaySo) {
    EXPECT_EQ(interrupt("run", train("run", {}), 3, SIGINT).exit_code, 130);
    const Result resumed = run(train("run", {"--resume"}, "4"));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("bits may differ"), HasSubstr("ranks was 2, is 4")));
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

// Standard streams and files that a user's shell or system gives the program in an unusual state: closed, full, a pipe.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <sstream>

#include "cli/program.h"

namespace cleave {
namespace {

using test::Program;
using test::Result;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class StreamsSlowTest : public testing::Test {
  protected:
    // `redirections` as a shell writes them.
    Result cleave(const std::string& arguments, const std::string& redirections = "") const {
        return Program(folder_.path(), {"sh", "-c", "exec " CLEAVE_PROGRAM " " + arguments + " " + redirections}, {})
            .wait();
    }
    std::string tiny_run(const std::string& name) const {
        return "train runs/tiny.toml --ranks 2 --set train.steps=2 --set train.warmup_steps=1 --set "
               "train.evaluate_batches=1 --set train.evaluate_all_at_end=false --set sample.tokens=3 --set "
               "run.folder=" +
               (folder_ / name).string();
    }
    ScratchFolder folder_;
};

TEST_F(StreamsSlowTest, AResultThatCannotBeWrittenIsAnError) {
    for (const char* command : {"--help", "--version", "train --help", "config", "config --json", "init",
                                "bench all_reduce --max-bytes 4096 --iterations 1", "bench all_reduce --explain --json",
                                "train runs/tiny.toml --dry-run"})
        for (const char* stream : {">/dev/full", ">&-"}) {
            const Result result = cleave(command, stream);
            EXPECT_EQ(result.exit_code, 2) << command << stream;
            EXPECT_THAT(result.err, HasSubstr("cannot write the result to standard output")) << command << stream;
        }
    EXPECT_EQ(cleave("train nowhere.toml --json", ">/dev/full").exit_code, 2);
}

TEST_F(StreamsSlowTest, AClosedStreamLendsItsNumberToNoFile) {
    EXPECT_EQ(cleave(tiny_run("out"), ">&-").exit_code, 2);
    EXPECT_EQ(cleave(tiny_run("log"), "2>&-").exit_code, 0);
    EXPECT_EQ(cleave(tiny_run("all"), "<&- >&- 2>&-").exit_code, 2);
    for (const char* name : {"out", "log", "all"}) {
        std::istringstream metrics(read_all(folder_ / name / "metrics.jsonl"));
        int lines = 0;
        for (std::string line; std::getline(metrics, line); ++lines) EXPECT_THAT(line, StartsWith("{\"step\": "));
        EXPECT_EQ(lines, 3) << name;  // two steps and the evaluation
    }
}

TEST_F(StreamsSlowTest, APipeInPlaceOfAFileIsRefusedAndNotWaitedFor) {
    const std::string pipe = (folder_ / "pipe").string();
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const Result train = cleave(tiny_run("run") + " --set data.path=" + pipe);
    EXPECT_EQ(train.exit_code, 2);
    EXPECT_THAT(train.err, AllOf(HasSubstr("data.path"), HasSubstr("a pipe or a device")));
    const Result generate = cleave("generate " + pipe);
    EXPECT_EQ(generate.exit_code, 2);
    EXPECT_THAT(generate.err, HasSubstr("not a regular file"));
}

TEST_F(StreamsSlowTest, ASecondRunInTheSameFolderIsRefused) {
    const std::string metrics = (folder_ / "run" / "metrics.jsonl").string();
    const std::string endless = tiny_run("run") + " --set train.steps=1000000";
    std::filesystem::create_directory(folder_ / "first");
    Program first(folder_ / "first", {"sh", "-c", "exec " CLEAVE_PROGRAM " " + endless}, {});
    ASSERT_TRUE(first.wait_until([&] { return std::filesystem::exists(metrics); }));
    for (const char* mode : {" --overwrite", " --resume"}) {
        const Result second = cleave(endless + mode);
        EXPECT_EQ(second.exit_code, 2);
        EXPECT_THAT(second.err, HasSubstr("another run is writing to the run folder")) << mode;
    }
    first.signal(SIGINT);
    EXPECT_EQ(first.wait().exit_code, 130);  // the refused ones left it whole
    EXPECT_EQ(cleave(tiny_run("run") + " --overwrite").exit_code, 0);
}

TEST_F(StreamsSlowTest, AModelWithMoreRowsThanTokensWritesOnlyTokens) {
    const Result result = cleave(tiny_run("run") + " --set model.vocabulary=500 --set sample.tokens=100");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(cleave("generate " + (folder_ / "run").string() + " --tokens 100").exit_code, 0);
}

TEST_F(StreamsSlowTest, MpiRanksWithOtherConfigurationsAreNamed) {
    const std::string program = CLEAVE_PROGRAM " " + tiny_run("run");
    const Result result = Program(folder_.path(),
                                  {"sh", "-c",
                                   "exec mpirun --allow-run-as-root --oversubscribe -np 1 " + program + " : -np 1 " +
                                       program + " --set train.lr=0.5"},
                                  {})
                              .wait();
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("train.lr: 0.003 on rank 0, 0.5 on rank 1"));
}

TEST_F(StreamsSlowTest, HelpAndListsFitEightyColumns) {
    for (const char* command : {"--help", "train --help", "generate --help", "bench --help", "config --help",
                                "init --help", "convert --help", "tokenize --help", "eval --help", "config", "init"}) {
        std::istringstream lines(cleave(command).out);
        for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << command << ": " << line;
    }
}

TEST_F(StreamsSlowTest, InitWithoutANameWritesToStandardOutput) {
    const std::string file = (folder_ / "my.toml").string();
    EXPECT_EQ(cleave("init", ">" + file).exit_code, 0);
    const Result plan = cleave("train " + file + " --dry-run --set data.path=examples/data/tiny.txt");
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

}  // namespace
}  // namespace cleave

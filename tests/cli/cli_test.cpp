// The program itself, run as a user runs it: exit codes, what stands on standard output and what on standard error.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/json.h"
#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct Finished {
    int exit_code;
    std::string out;
    std::string err;
};

class CliTest : public testing::Test {
  protected:
    // Runs `cleave <arguments>` with the tree as the current folder; `then` is what the shell does after its start.
    Finished cleave(const std::string& arguments, const std::string& then = "") const {
        const std::string command = "cd '" CLEAVE_SOURCE "' && exec >'" + out().string() + "' 2>'" + err().string() +
                                    "' </dev/null; '" CLEAVE_PROGRAM "' " + arguments + then;
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(out()), read_all(err())};
    }
    std::filesystem::path out() const { return folder_ / "stdout"; }
    std::filesystem::path err() const { return folder_ / "stderr"; }
    ScratchFolder folder_;
};

TEST_F(CliTest, HelpNamesEveryCommandAndEachExplainsItself) {
    const Finished help = cleave("--help");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.err, IsEmpty());
    for (const char* command : {"train", "generate", "eval", "convert", "bench", "config", "init"}) {
        EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + command + " "));
        const Finished own = cleave(std::string(command) + " --help");
        EXPECT_EQ(own.exit_code, 0);
        EXPECT_THAT(own.out, AllOf(HasSubstr("Usage: cleave " + std::string(command)), HasSubstr("--json"),
                                   HasSubstr("Examples:")));
    }
    EXPECT_THAT(cleave("train --help").out,
                AllOf(HasSubstr("--ranks"), HasSubstr("--set"), HasSubstr("--resume"), HasSubstr("--overwrite"),
                      HasSubstr("--dry-run"), HasSubstr("needs no quotes")));
    EXPECT_THAT(cleave("--version").out, StartsWith("cleave "));
}

TEST_F(CliTest, WrongCommandLinesAreUserErrorsWithAHint) {
    const auto refused = [&](const std::string& arguments) {
        const Finished result = cleave(arguments);
        EXPECT_EQ(result.exit_code, 2) << arguments;
        EXPECT_THAT(result.out, IsEmpty()) << arguments;
        EXPECT_THAT(result.err, StartsWith("error: ")) << arguments;
        return result.err;
    };
    EXPECT_THAT(refused(""), HasSubstr("no command is given"));
    EXPECT_THAT(refused("trian"), HasSubstr("did you mean 'train'?"));
    EXPECT_THAT(refused("train"), HasSubstr("RUN.toml is required"));
    EXPECT_THAT(refused("train x.toml --rank 2"), HasSubstr("no option --rank (did you mean --ranks?)"));
    EXPECT_THAT(refused("train x.toml --ranks two"),
                HasSubstr("--ranks: found 'two'; accepted: an integer from 1 to 1048576"));
    for (const char* number : {"0", "-1", "2.5", "1048577", "99999999999999999999", "0x2", "''", "2ranks"})
        EXPECT_THAT(refused(std::string("train x.toml --ranks ") + number), HasSubstr("an integer from 1 to 1048576"));
    for (const char* number : {"nan", "inf", "-1", "1e400", "1e16", "x"})
        EXPECT_THAT(refused(std::string("bench all_reduce --elements ") + number), HasSubstr("a number from 1 to"));
    EXPECT_THAT(refused("bench step"), HasSubstr("cleave bench step gpt2-124m"));
    EXPECT_THAT(refused("bench step gpt2-125m"), HasSubstr("did you mean 'gpt2-124m'?"));
    EXPECT_THAT(refused("bench matmul 3 x"), HasSubstr("M N K"));
    EXPECT_THAT(refused("bench matmul 3 x 0"), AllOf(HasSubstr("'x' for N"), HasSubstr("'0' for K")));
    EXPECT_THAT(refused("bench step gpt2-124m --min-bytes 8 --explain --form nn"),
                AllOf(HasSubstr("3 problems"), HasSubstr("--min-bytes: found with 'step'; it is for collectives"),
                      HasSubstr("--explain"), HasSubstr("--form: found with 'step'; it is for matmul")));
    EXPECT_THAT(refused("bench all_reduce --batch 2"), HasSubstr("--batch: found with 'all_reduce'; it is for step"));
    EXPECT_THAT(refused("bench all_reduce 1024"), HasSubstr("a collective takes options only"));
    EXPECT_THAT(refused("train x.toml --set"), HasSubstr("--set needs a value"));
    EXPECT_THAT(refused("train x.toml --ranks"), HasSubstr("--ranks needs a value"));
    EXPECT_THAT(refused("train x.toml --ranks 1 --ranks 2"), HasSubstr("--ranks is given more than once"));
    EXPECT_THAT(refused("train runs/tiny.toml --ranks 100000 --set train.batch=100000"),
                AllOf(HasSubstr("--ranks: found 100000"), HasSubstr("accepted: from 1 to 256")));
    for (const char* command : {"eval nowhere", "bench all_reduce", "bench step runs/tiny.toml"})
        EXPECT_THAT(refused(std::string(command) + " --ranks 257"), HasSubstr("--ranks: found 257")) << command;
    for (const char* temperature :
         {"generate x --temperature 1e17", "train runs/tiny.toml --set sample.temperature=1e17"})
        EXPECT_THAT(refused(temperature), HasSubstr("accepted: a number from 0 to 1e+16"));
    EXPECT_THAT(refused("init --data \"$(printf 'a\\377b.txt')\""), HasSubstr("--data: found"));
    EXPECT_THAT(refused("train x.toml --resume --overwrite"), HasSubstr("--resume"));
    EXPECT_THAT(refused("train nowhere.toml"), HasSubstr("cleave init nowhere.toml"));
    EXPECT_THAT(refused("config trian"), HasSubstr("did you mean 'train'?"));
    EXPECT_THAT(refused("generate nowhere"), Not(IsEmpty()));
}

TEST_F(CliTest, WithJsonAnErrorIsADocumentToo) {
    const Finished result = cleave("train nowhere.toml --json");
    EXPECT_EQ(result.exit_code, 2);
    const Json document = Json::parse(result.out, "stdout");
    EXPECT_EQ(*document.find("exit_code")->integer(), 2);
    EXPECT_THAT(*document.find("error")->string(), HasSubstr("nowhere.toml"));
    EXPECT_THAT(result.err, HasSubstr("nowhere.toml"));
}

TEST_F(CliTest, ConfigListsEveryKey) {
    const Finished table = cleave("config");
    EXPECT_EQ(table.exit_code, 0);
    EXPECT_THAT(table.out, AllOf(HasSubstr("[train]"), HasSubstr("  train.batch "), HasSubstr("  data.path ")));
    const Json document = Json::parse(cleave("config --json").out, "stdout");
    ASSERT_NE(document.find("keys"), nullptr);
    for (const Json& key : *document.find("keys")->items()) {
        for (const char* field : {"key", "type", "default", "accepted", "meaning"}) ASSERT_NE(key.find(field), nullptr);
        EXPECT_THAT(table.out, HasSubstr("  " + *key.find("key")->string() + " "));
    }
    EXPECT_THAT(cleave("config mesh").out, Not(HasSubstr("train.")));
    EXPECT_THAT(cleave("config train.lr").out, AllOf(HasSubstr("train.lr"), Not(HasSubstr("train.batch"))));
}

TEST_F(CliTest, InitWritesARunFileThatTrainAccepts) {
    const std::string run = (folder_ / "my.toml").string();
    write_all(folder_ / "any.txt", std::string(2000, 'a'));
    const Finished result = cleave("init " + run + " --data " + (folder_ / "any.txt").string());
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("next: cleave train " + run));
    EXPECT_THAT(read_all(run), HasSubstr("path = \"any.txt\""));
    const Finished again = cleave("init " + run);
    EXPECT_EQ(again.exit_code, 2);
    EXPECT_THAT(again.err, HasSubstr("--overwrite"));
    EXPECT_EQ(cleave("init " + run + " --overwrite --json").exit_code, 0);
    EXPECT_THAT(cleave("init /nowhere/my.toml").err, HasSubstr("/nowhere/my.toml"));
}

TEST_F(CliTest, TheFileOfInitTakesGivenWeightsAndShortRuns) {
    const std::string run = (folder_ / "my.toml").string();
    write_all(folder_ / "any.txt", std::string(20000, 'a') + "bcd");
    ASSERT_EQ(cleave("init " + run + " --data " + (folder_ / "any.txt").string()).exit_code, 0);
    for (const char* family : {"gpt2", "qwen3"}) {
        const Finished given =
            cleave("train " + run + " --dry-run --set train.steps=3 --set model.weights=tests/golden/models/" +
                   std::string(family));
        EXPECT_EQ(given.exit_code, 0) << given.err;
    }
    const Finished missing = cleave("train " + run + " --set model.weights=/nope");
    EXPECT_THAT(missing.err, HasSubstr("--set model.weights: there is no folder or checkpoint '/nope'; accepted: "));
}

TEST_F(CliTest, WhatCannotBeReadIsNamedInWords) {
    std::filesystem::create_directory(folder_ / "run");
    std::filesystem::create_symlink("checkpoints", folder_ / "run" / "checkpoints");  // a loop
    const Finished result = cleave("generate " + (folder_ / "run").string());
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr((folder_ / "run" / "checkpoints").string()),
                                  HasSubstr("Too many levels of symbolic links"), Not(HasSubstr("filesystem error"))));
}

TEST_F(CliTest, ProblemsOfFileSetsAndLayoutComeTogether) {
    const Finished result = cleave("train runs/tiny.toml --ranks 3 --set model.heads=5 --set train.btach=3");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("3 problems"), HasSubstr("--set train.btach=3: unknown key 'train.btach'"),
                                  HasSubstr("--set model.heads: found 5"), HasSubstr("runs/tiny.toml:"),
                                  HasSubstr("train.batch: found 8, which does not divide over dp = 3 ranks")));
}

TEST_F(CliTest, TrainsOverwritesResumesAndGenerates) {
    const std::string folder = (folder_ / "run").string();
    const std::string train =
        "train runs/tiny.toml --ranks 2 --json --set train.steps=4 --set train.warmup_steps=1 "
        "--set train.evaluate_batches=1 --set sample.tokens=5 --set run.folder=" +
        folder;
    const Finished first = cleave(train);
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const Json document = Json::parse(first.out, "stdout");
    for (const char* field : {"train_loss", "validation_loss", "tokens_per_s"}) {
        ASSERT_NE(document.find(field), nullptr) << first.out;
        EXPECT_TRUE(document.find(field)->is_number());
    }
    for (const char* file : {"metrics.jsonl", "loss.svg", "config.toml", "sample.txt"})
        EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / file)) << file;

    const Finished again = cleave(train);
    EXPECT_EQ(again.exit_code, 2);
    EXPECT_THAT(again.err, AllOf(HasSubstr(folder), HasSubstr("--resume"), HasSubstr("--overwrite")));
    EXPECT_EQ(cleave(train + " --overwrite").exit_code, 0);
    EXPECT_EQ(cleave(train + " --resume --set train.steps=6").exit_code, 0);
    const Finished fewer = cleave(train + " --resume --set train.steps=5");
    EXPECT_EQ(fewer.exit_code, 2);
    EXPECT_THAT(fewer.err, AllOf(HasSubstr("train.steps: found 5"), HasSubstr("accepted: at least 6")));
    EXPECT_EQ(
        *Json::parse(cleave(train + " --resume --set train.steps=6").out, "stdout").find("trained_steps")->integer(),
        0);
    // Its configuration holds wherever it is read from.
    const Finished done = cleave("train " + folder + "/config.toml --resume --ranks 2");
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_THAT(done.out, AllOf(HasSubstr("after 6 steps: nothing was trained"), HasSubstr("--set train.steps=12")));

    // The effective configuration is a run file that gives the same run again.
    const std::string copy = "train " + folder + "/config.toml --ranks 2 --json --set run.folder=" + folder + "2";
    EXPECT_EQ(cleave(copy).exit_code, 0);

    const Finished text = cleave("generate " + folder + " --prompt 'First' --tokens 7 --json");
    ASSERT_EQ(text.exit_code, 0) << text.err;
    const auto written = [](const Finished& result) { return *Json::parse(result.out, "stdout").find("text"); };
    EXPECT_EQ(written(cleave("generate " + folder + " --prompt 'First' --tokens 7 --json")), written(text));
    EXPECT_THAT(cleave("generate " + folder + " --prompt '\xC3\xA9'").err, HasSubstr("U+00E9"));
}

// A step whose learning rate moves no f32 begins and ends with the weights that it was given.
TEST_F(CliTest, ConvertsTrainsFromWeightsAndConvertsBack) {
    write_all(folder_ / "any.txt", std::string(3000, 'a') + "bcd");
    write_all(folder_ / "my.toml", "[model]\nweights = \"given\"\ncontext = 12\n[data]\npath = \"any.txt\"\n");
    const std::string given = (folder_ / "given").string();
    ASSERT_EQ(cleave("convert tests/golden/models/qwen3 " + given).exit_code, 0);
    const Finished train =
        cleave("train " + (folder_ / "my.toml").string() +
               " --ranks 2 --set train.steps=2 --set train.warmup_steps=0 --set train.lr=1e-30 --set "
               "train.min_lr=0 --set train.evaluate_batches=1 --set sample.tokens=3 --set run.folder=" +
               (folder_ / "run").string());
    ASSERT_EQ(train.exit_code, 0) << train.err;
    EXPECT_THAT(train.err,
                AllOf(HasSubstr("begins with the weights of the checkpoint " + given), HasSubstr("context 12")));
    const Finished back =
        cleave("convert " + (folder_ / "run").string() + " " + (folder_ / "out").string() + " --json");
    ASSERT_EQ(back.exit_code, 0) << back.err;
    EXPECT_TRUE(*Json::parse(back.out, "stdout").find("equal")->boolean());
    EXPECT_EQ(cleave("convert " + given + " " + (folder_ / "direct").string()).exit_code, 0);
    EXPECT_EQ(read_all(folder_ / "out" / "model.safetensors"), read_all(folder_ / "direct" / "model.safetensors"));

    EXPECT_THAT(cleave("convert " + given + " x --dtype f16").err, HasSubstr("found 'f16'; accepted: f32, bf16"));
    const Finished wrong = cleave("train " + (folder_ / "my.toml").string() + " --set model.layers=7");
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.err, HasSubstr("--set model.layers: found 7, but the checkpoint"));
}

TEST_F(CliTest, ADryRunPrintsOneDocumentAndWritesNothing) {
    const std::string folder = (folder_ / "run").string();
    const Finished result = cleave("train runs/tiny.toml --ranks 2 --dry-run --json --set run.folder=" + folder);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(Json::parse(result.out, "stdout").members(), nullptr);
    EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(CliTest, CtrlCStopsWithACheckpoint) {
    const std::string folder = (folder_ / "run").string();
    const std::string metrics = folder + "/metrics.jsonl";
    const Finished result =
        cleave("train runs/tiny.toml --ranks 2 --set train.steps=1000000 --set run.folder=" + folder,
               " & child=$!; tries=0; until [ -s " + metrics +
                   " ] || [ $tries = 600 ]; do sleep 0.05; "
                   "tries=$((tries + 1)); done; kill -INT $child; wait $child");
    EXPECT_EQ(result.exit_code, 130) << result.err;
    EXPECT_THAT(result.out, HasSubstr("--resume"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / "checkpoints" / "latest"));
}

TEST_F(CliTest, TheRunFilesThatAreShippedAreValid) {
    for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_SOURCE "/runs")) {
        // A text that does not exist is the only problem that may remain.
        const Finished result = cleave("train '" + entry.path().string() + "' --ranks 2 --set data.path=/nowhere");
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_THAT(result.err, StartsWith("error: --set data.path: there is no file '/nowhere'")) << entry.path();
    }
}

}  // namespace
}  // namespace cleave

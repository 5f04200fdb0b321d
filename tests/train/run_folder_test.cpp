// The run folder: what is refused, what a new run removes and what it leaves alone.
#include "train/run_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/scratch.h"
#include "train/checkpoint_file.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Mode = RunFolder::Mode;

class RunFolderTest : public testing::Test {
  protected:
    fs::path path() const { return scratch_ / "a" / "run"; }
    std::string refusal(Mode mode) const {
        return user_error([&] { RunFolder(path(), mode); });
    }
    void put(const std::string& name, const std::string& text = "x") const {
        fs::create_directories((path() / name).parent_path());
        write_all(path() / name, text);
    }
    bool has(const std::string& name) const { return fs::exists(path() / name); }
    ScratchFolder scratch_;
};

TEST_F(RunFolderTest, AFolderThatHoldsAnythingNeedsAWord) {
    EXPECT_THAT(refusal(Mode::resume), HasSubstr("no run folder"));
    fs::create_directories(path());
    EXPECT_EQ(refusal(Mode::fresh), "");  // empty: nothing can be lost
    EXPECT_THAT(refusal(Mode::resume), HasSubstr("no run folder"));
    put("notes.txt");
    put("checkpoints/step_000000007.ckpt");
    EXPECT_THAT(refusal(Mode::fresh), testing::AllOf(HasSubstr(path().string()), HasSubstr("--resume"),
                                                     HasSubstr("--overwrite"), HasSubstr("run.folder")));
    EXPECT_EQ(refusal(Mode::resume), "");
    EXPECT_EQ(refusal(Mode::overwrite), "");
    EXPECT_TRUE(has("notes.txt")) << "asking must change nothing";
    fs::remove_all(path());
    write_all(path(), "a file");
    for (Mode mode : {Mode::fresh, Mode::resume, Mode::overwrite}) EXPECT_THAT(refusal(mode), HasSubstr("is a file"));
}

TEST_F(RunFolderTest, AFolderThatNoRunMadeIsRefusedWhateverTheWord) {
    for (const char* foreign :
         {"precious.txt", "config.toml", "metrics.jsonl", "tokens.bin", "checkpoints/best.ckpt"}) {
        fs::remove_all(path());
        put(foreign, "mine = 1\n");
        for (Mode mode : {Mode::fresh, Mode::resume, Mode::overwrite})
            EXPECT_THAT(refusal(mode), testing::AllOf(HasSubstr("what no run has made"),
                                                      HasSubstr(fs::path(foreign).begin()->string()),
                                                      HasSubstr("run.folder"), testing::Not(HasSubstr("--overwrite"))))
                << foreign;
        EXPECT_EQ(read_all(path() / foreign), "mine = 1\n");
    }
}

TEST_F(RunFolderTest, WhatARunLeavesIsKnownAsARunsAtEveryTime) {
    const auto known = [&](const std::vector<std::pair<std::string, std::string>>& files) {
        fs::remove_all(path());
        for (const auto& [name, text] : files) put(name, text);
        return RunFolder::is_one(path()) && refusal(Mode::overwrite).empty();
    };
    EXPECT_TRUE(known({{"tokens.bin.12-0.tmp", "CLEA"}})) << "killed while the text became tokens";
    EXPECT_TRUE(known({{"tokens.bin", "CLEAVE01"}})) << "killed before the first step";
    EXPECT_FALSE(known({{"tokens.bin", "CLEAVE01"}, {"notes.txt", ""}}));
    {
        fs::remove_all(path());
        RunFolder folder(path(), Mode::fresh);
        folder.begin("[data]  # of text\n[model]  # its size\n[train]  # how\n");
    }
    EXPECT_TRUE(RunFolder::is_one(path())) << "killed in the first step";
    EXPECT_THAT(refusal(Mode::fresh), testing::AllOf(HasSubstr("--overwrite"), testing::Not(HasSubstr("--resume"))))
        << "there is nothing to resume";
    EXPECT_FALSE(RunFolder::is_one(scratch_ / "nothing"));
}

TEST_F(RunFolderTest, WhereTheMarkerIsLostTheNewestWholeCheckpointIsTaken) {
    RunFolder folder(path(), Mode::fresh);
    folder.begin("");
    for (std::int64_t step : {5, 90, 100}) CheckpointWriter().write(folder.checkpoint(step), Json::object());
    const fs::path latest = folder.checkpoints() / "latest";
    const auto newest = [&] {
        testing::internal::CaptureStderr();
        const auto found = RunFolder::newest_checkpoint(path());
        EXPECT_THAT(testing::internal::GetCapturedStderr(),
                    testing::AllOf(HasSubstr("latest"), HasSubstr("warning"), HasSubstr(found->string())));
        return *found;
    };
    EXPECT_EQ(newest(), folder.checkpoint(100));
    write_all(latest, std::string(16, '\0'));
    EXPECT_EQ(newest(), folder.checkpoint(100));
    EXPECT_THAT(user_error([&] { latest_checkpoint(folder.checkpoints()); }), HasSubstr("it says '\\x00\\x00"));
    write_all(folder.checkpoint(100), "CLEAVE01 cut");
    EXPECT_EQ(newest(), folder.checkpoint(90));
    for (std::int64_t step : {5, 90}) write_all(folder.checkpoint(step), "");
    fs::remove(latest);
    EXPECT_THAT(user_error([&] { RunFolder::newest_checkpoint(path()); }),
                testing::AllOf(HasSubstr("latest' is missing"), HasSubstr("step_000000100.ckpt"),
                               HasSubstr("step_000000005.ckpt"), testing::Not(HasSubstr("--overwrite"))));
}

TEST_F(RunFolderTest, OverwritingRemovesTheRunsFilesAndNoOthers) {
    const std::vector<std::string> runs{"metrics.jsonl", "loss.svg",           "sample.txt",
                                        "trace.json",    "checkpoints/latest", "checkpoints/step_000000007.ckpt"};
    const std::vector<std::string> others{
        "notes.txt",         "checkpoints/best.ckpt", "checkpoints/step_x.ckpt", "checkpoints/step_7.ckpt.bak",
        "metrics.jsonl.old", "foreign.1-2.tmp"};
    for (const auto& name : runs) put(name);
    for (const auto& name : others) put(name);
    RunFolder folder(path(), Mode::overwrite);
    for (const auto& name : runs) EXPECT_TRUE(has(name)) << name << " went before the run began";
    folder.begin("[train]\n", "");
    for (const auto& name : runs) EXPECT_FALSE(has(name)) << name;
    for (const auto& name : others) EXPECT_TRUE(has(name)) << name;
    EXPECT_EQ(read_all(folder.config()), "[train]\n");
}

TEST_F(RunFolderTest, ResumingKeepsTheRunAndClearsWhatAKilledOneHadNotFinished) {
    for (const char* name : {"metrics.jsonl", "checkpoints/step_000000007.ckpt"}) put(name);
    for (const char* name : {"loss.svg.12-3.tmp", "checkpoints/step_000000008.ckpt.12-4.tmp"}) put(name);
    RunFolder(path(), Mode::resume).begin("new", "");
    EXPECT_TRUE(has("metrics.jsonl"));
    EXPECT_TRUE(has("checkpoints/step_000000007.ckpt"));
    EXPECT_FALSE(has("loss.svg.12-3.tmp"));
    EXPECT_FALSE(has("checkpoints/step_000000008.ckpt.12-4.tmp"));
}

// In a child process, as a user who may not write everywhere.
TEST_F(RunFolderTest, AFolderThatCannotBeWrittenIsToldBeforeTheRun) {
    put("config.toml", "[model]\n[train]\n");
    put("checkpoints/step_000000007.ckpt");
    for (const fs::path& folder : {scratch_.path(), scratch_ / "a", path(), path() / "checkpoints"})
        ASSERT_EQ(::chmod(folder.c_str(), folder.filename() == "checkpoints" ? 0555 : 0777), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
        RunFolder folder(path(), Mode::overwrite);
        const std::string refused = user_error([&] { folder.begin("x", ""); });
        ::_exit(refused.find("checkpoints: Permission denied; accepted: a run.folder") == refused.npos ? 2 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    ::chmod((path() / "checkpoints").c_str(), 0777);
    EXPECT_TRUE(has("checkpoints/step_000000007.ckpt"));
    EXPECT_EQ(read_all(path() / "config.toml"), "[model]\n[train]\n");
}

TEST_F(RunFolderTest, ARunThatNeverBeganLeavesNothing) {
    {
        RunFolder folder(path(), Mode::fresh);
        write_all(folder.tokens(), "tokens");
        folder.abandon();
    }
    EXPECT_FALSE(fs::exists(scratch_ / "a"));
    fs::create_directories(path());
    RunFolder(path(), Mode::fresh).abandon();
    EXPECT_TRUE(fs::is_directory(path())) << "a folder that was there before went";
    put("tokens.bin", "CLEAVE01");
    RunFolder(path(), Mode::overwrite).abandon();
    EXPECT_TRUE(has("tokens.bin")) << "an older run's file went";
    RunFolder begun(path(), Mode::overwrite);
    begun.begin("x", "");
    begun.abandon();
    EXPECT_TRUE(has("config.toml")) << "a run that has begun stays";
}

TEST_F(RunFolderTest, TheNewestCheckpointAndTheOneBeforeItStay) {
    RunFolder folder(path(), Mode::fresh);
    folder.begin("", "");
    EXPECT_EQ(RunFolder::newest_checkpoint(path()), std::nullopt);
    for (std::int64_t step : {5, 10, 90, 100, 1000}) {
        write_all(folder.checkpoint(step), "x");
        mark_latest(folder.checkpoint(step));
    }
    EXPECT_EQ(RunFolder::newest_checkpoint(path()), folder.checkpoint(1000));
    folder.remove_checkpoints_before(100);
    for (std::int64_t step : {5, 10}) EXPECT_FALSE(fs::exists(folder.checkpoint(step))) << step;
    for (std::int64_t step : {90, 100, 1000}) EXPECT_TRUE(fs::exists(folder.checkpoint(step))) << step;
}

}  // namespace
}  // namespace cleave

// The run folder: what is refused, what a new run removes and what it leaves alone.
#include "train/run_folder.h"

#include <gmock/gmock.h>

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
    put("notes.txt");
    EXPECT_THAT(refusal(Mode::fresh), testing::AllOf(HasSubstr(path().string()), HasSubstr("--resume"),
                                                     HasSubstr("--overwrite"), HasSubstr("run.folder")));
    EXPECT_EQ(refusal(Mode::resume), "");
    EXPECT_EQ(refusal(Mode::overwrite), "");
    EXPECT_TRUE(has("notes.txt")) << "asking must change nothing";
    fs::remove_all(path());
    write_all(path(), "a file");
    for (Mode mode : {Mode::fresh, Mode::resume, Mode::overwrite}) EXPECT_THAT(refusal(mode), HasSubstr("is a file"));
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
    folder.begin("[train]\n");
    for (const auto& name : runs) EXPECT_FALSE(has(name)) << name;
    for (const auto& name : others) EXPECT_TRUE(has(name)) << name;
    EXPECT_EQ(read_all(folder.config()), "[train]\n");
}

TEST_F(RunFolderTest, ResumingKeepsTheRunAndClearsWhatAKilledOneHadNotFinished) {
    for (const char* name : {"metrics.jsonl", "checkpoints/step_000000007.ckpt"}) put(name);
    for (const char* name : {"loss.svg.12-3.tmp", "checkpoints/step_000000008.ckpt.12-4.tmp"}) put(name);
    RunFolder(path(), Mode::resume).begin("new");
    EXPECT_TRUE(has("metrics.jsonl"));
    EXPECT_TRUE(has("checkpoints/step_000000007.ckpt"));
    EXPECT_FALSE(has("loss.svg.12-3.tmp"));
    EXPECT_FALSE(has("checkpoints/step_000000008.ckpt.12-4.tmp"));
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
    put("tokens.bin");
    RunFolder(path(), Mode::overwrite).abandon();
    EXPECT_TRUE(has("tokens.bin")) << "an older run's file went";
    RunFolder begun(path(), Mode::overwrite);
    begun.begin("x");
    begun.abandon();
    EXPECT_TRUE(has("config.toml")) << "a run that has begun stays";
}

TEST_F(RunFolderTest, TheNewestCheckpointAndTheOneBeforeItStay) {
    RunFolder folder(path(), Mode::fresh);
    folder.begin("");
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

// `cleave tokenize`: what it refuses to write over, and what it removes.
#include "train/tokenize_run.h"

#include <gmock/gmock.h>

#include <memory>

#include "support/scratch.h"
#include "train/token_file.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class TokenizeRunTest : public testing::Test {
  protected:
    TokenizeRunTest() { write_all(folder_ / "in.txt", "abcd"); }

    std::string at(const std::string& name) const { return (folder_ / name).string(); }
    // What it says that is no result: the error, or else the log.
    std::string said(const std::string& input, const std::string& output, const std::string& format, bool overwrite,
                     const std::string& tokenizer = "bytes") const {
        TokenizeOptions options{at(input), tokenizer, at(output), format, overwrite, false};
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        const std::string error = user_error([&] { run_tokenization(options); });
        testing::internal::GetCapturedStdout();
        const std::string log = testing::internal::GetCapturedStderr();
        return error.empty() ? log : error;
    }
    ScratchFolder folder_;
};

TEST_F(TokenizeRunTest, FilesThatExistNeedAWord) {
    write_all(folder_ / "x.bin", "mine");
    EXPECT_THAT(said("in.txt", "x.bin", "bin", false), AllOf(HasSubstr("x.bin' exists"), HasSubstr("--overwrite")));
    EXPECT_EQ(read_all(folder_ / "x.bin"), "mine");
    said("in.txt", "x.bin", "bin", true);
    EXPECT_THAT(TokenFile(folder_ / "x.bin").tokens().copy(), ElementsAre('a', 'b', 'c', 'd'));

    write_all(folder_ / "y.idx", "mine");
    for (const char* format : {"megatron", "bin", "cleave"})
        EXPECT_THAT(said("in.txt", "y.bin", format, false), HasSubstr("y.idx' exists")) << format;
    EXPECT_THAT(said("in.txt", "y.bin", "bin", true), AllOf(HasSubstr("y.idx"), HasSubstr("no Megatron index")));
    EXPECT_EQ(read_all(folder_ / "y.idx"), "mine");
    EXPECT_FALSE(fs::exists(folder_ / "y.bin"));
}

TEST_F(TokenizeRunTest, WhatIsReadIsNeverWrittenOver) {
    const std::string tokenizer = read_all(fs::path(CLEAVE_GOLDEN) / "tokenizers/gpt2.json");
    for (const char* name : {"in.bin", "in.idx"}) write_all(folder_ / name, "abcd");
    write_all(folder_ / "t.bin", tokenizer);
    fs::create_hard_link(folder_ / "in.bin", folder_ / "hard.bin");
    fs::create_symlink(folder_ / "in.bin", folder_ / "soft.bin");
    for (bool overwrite : {false, true}) {
        for (const char* output : {"in.bin", "hard.bin", "soft.bin"})
            EXPECT_THAT(said("in.bin", output, "cleave", overwrite), HasSubstr("itself, which is read")) << output;
        EXPECT_THAT(said("in.txt", "t.bin", "cleave", overwrite, at("t.bin")), HasSubstr("itself, which is read"));
    }
    EXPECT_THAT(said("in.idx", "in.bin", "megatron", true), HasSubstr("in.idx' itself"));
    for (const char* name : {"in.bin", "in.idx"}) EXPECT_EQ(read_all(folder_ / name), "abcd") << name;
    EXPECT_EQ(read_all(folder_ / "t.bin"), tokenizer);
}

TEST_F(TokenizeRunTest, TheIndexOfAFileThatWasReplacedGoesWithIt) {
    said("in.txt", "x.bin", "megatron", false);
    ASSERT_TRUE(fs::exists(folder_ / "x.idx"));
    fs::remove(folder_ / "x.bin");
    EXPECT_THAT(said("in.txt", "x.bin", "bin", false), AllOf(HasSubstr("x.idx' exists"), HasSubstr("Megatron")));
    EXPECT_THAT(said("in.txt", "x.bin", "bin", true), AllOf(HasSubstr("removed"), HasSubstr("x.idx")));
    EXPECT_FALSE(fs::exists(folder_ / "x.idx"));
    said("in.txt", "x.bin", "megatron", true);
    EXPECT_THAT(said("in.txt", "x.bin", "megatron", true), Not(HasSubstr("removed")));
    EXPECT_TRUE(fs::exists(folder_ / "x.idx"));
}

TEST_F(TokenizeRunTest, TheRemedyForATextThatIsNoUtf8IsAnOptionOfTheCommand) {
    write_all(folder_ / "odd.txt", "ab\xff");
    EXPECT_THAT(said("odd.txt", "x.bin", "cleave", false, "char"), HasSubstr("--tokenizer bytes"));
}

}  // namespace
}  // namespace cleave

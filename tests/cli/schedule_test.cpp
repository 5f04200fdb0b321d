// cleave schedule, as a user runs it.
#include <gmock/gmock.h>

#include "base/json.h"
#include "cli/program.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ScheduleCommand : public testing::Test {
  protected:
    Result schedule(std::vector<std::string> words) const {
        words.insert(words.begin(), {CLEAVE_PROGRAM, "schedule"});
        return Program(folder_.path(), words, {}).wait();
    }
    Result of(const std::string& kind, int stages, int microbatches, std::vector<std::string> more = {}) const {
        more.insert(more.begin(),
                    {kind, "--stages", std::to_string(stages), "--microbatches", std::to_string(microbatches)});
        return schedule(std::move(more));
    }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    ScratchFolder folder_;
};

TEST_F(ScheduleCommand, PrintsPictureFiguresAndVerdict) {
    const Result result = of("1f1b", 4, 8);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("\n0123......aa4bb5cc6dd7ee.ff.gg.hh\n.012....aa3bb4cc5dd6ee7ff.gg.hh..\n"),
                                  HasSubstr("bubble 27.3 % of total time, 37.5 % of useful time"),
                                  HasSubstr("one step"), HasSubstr("messages: 24 activations, 24 gradients"),
                                  HasSubstr("check: every action once"), HasSubstr("small letter: its backward")));
    const Result zero = of("zb-h2", 4, 8);
    EXPECT_THAT(zero.out, AllOf(HasSubstr("one step               27; bubble 11.1 % of total time, 12.5 %"),
                                HasSubstr("repeated, with a norm  every 27"),
                                HasSubstr("repeated, without      every 24; bubble 0.0 %"), HasSubstr("0 to 3")));
}

TEST_F(ScheduleCommand, OneDocument) {
    const Result result = of("interleaved", 4, 8, {"--chunks", "2", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json document = Json::parse(result.out, "stdout");
    EXPECT_DOUBLE_EQ(document.find("one_step")->find("bubble_of_total")->number(), 3.0 / 19);
    EXPECT_DOUBLE_EQ(document.find("one_step")->find("bubble_of_useful")->number(), 0.1875);
    EXPECT_EQ(document.find("messages")->find("activations")->number(), 56);
    const auto& stages = *document.find("of_stage")->items();
    ASSERT_EQ(stages.size(), 4U);
    EXPECT_EQ(stages[0].find("held")->number(), 11);
    EXPECT_EQ(stages[0].find("held_microbatches")->number(), 5.5);
}

TEST_F(ScheduleCommand, TimesChangeThePictureAndTheBubble) {
    EXPECT_THAT(of("gpipe", 1, 1, {"--forward", "2", "--backward", "3"}).out, HasSubstr("\n00aaa\n"));
    EXPECT_THAT(of("zb-h1", 1, 1, {"--forward", "2", "--backward", "6"}).out, HasSubstr("\n00aaaAAA\n"));
    EXPECT_THAT(of("zb-h1", 1, 1, {"--input-grad", "2"}).out, HasSubstr("\n0aaA\n"));
    EXPECT_THAT(of("naive", 2, 1, {"--message", "1"}).out, HasSubstr("\n0.....aa\n..0aa...\n"));
    EXPECT_THAT(of("dualpipe", 8, 20, {"--overlapped", "3"}).out, HasSubstr("one step               66"));
    EXPECT_THAT(of("dualpipe", 8, 20).out, HasSubstr("one step               63"));
}

TEST_F(ScheduleCommand, WritesAFileThatCanBeChangedAndRead) {
    const Result list = of("1f1b", 2, 3, {"--format", "list"});
    EXPECT_THAT(list.out, AllOf(HasSubstr("\nF0 F1 B0 F2 B1 B2\nF0 B0 F1 B1 F2 B2\n"), StartsWith("name 1f1b\n")));
    write_all(folder_ / "my.txt", list.out);
    EXPECT_EQ(schedule({path("my.txt")}).out, of("1f1b", 2, 3).out);
    const Result messages = of("1f1b", 2, 3, {"--format", "messages"});
    EXPECT_THAT(messages.out, HasSubstr("F0 SA0 F1 SA1"));
    write_all(folder_ / "whole.txt", messages.out);
    EXPECT_EQ(schedule({path("whole.txt"), "--format", "messages"}).out, messages.out);
}

TEST_F(ScheduleCommand, AWrongFileIsRefusedWithItsFirstWrongAction) {
    write_all(folder_ / "my.txt", "stages 2\nmicrobatches 2\nF0 B0 F1 B1\nF0 B1 F1 B0\n");
    const Result result = schedule({path("my.txt")});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err,
                HasSubstr(path("my.txt") + ":4:4: stage 1, action 2 of its list, B1: it comes before its own "
                                           "forward; accepted: after F1"));
    write_all(folder_ / "hangs.txt", "stages 2\nmicrobatches 1\nF0 RG0 SA0 B0\nRA0 F0 B0 SG0\n");
    const Result hangs = schedule({path("hangs.txt"), "--json"});
    EXPECT_EQ(hangs.exit_code, 2);
    EXPECT_THAT(*Json::parse(hangs.out, "stdout").find("error")->string(), HasSubstr("they wait in a circle"));
}

TEST_F(ScheduleCommand, WrongOptionsAreNamedTogether) {
    const auto refused = [&](const std::vector<std::string>& words) {
        const Result result = schedule(words);
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_THAT(result.out, IsEmpty());
        return result.err;
    };
    EXPECT_THAT(
        refused({"zb-h3", "--stages", "2", "--microbatches", "2"}),
        AllOf(HasSubstr("found 'zb-h3', which is no schedule and no file"), HasSubstr("did you mean 'zb-h1'?")));
    EXPECT_THAT(refused({"1f1b"}), AllOf(HasSubstr("--stages: not given"), HasSubstr("--microbatches: not given")));
    EXPECT_THAT(refused({"dualpipe", "--stages", "3", "--microbatches", "7", "--chunks", "1", "--backward", "2",
                         "--input-grad", "1", "--format", "svg"}),
                AllOf(HasSubstr("5 problems"), HasSubstr("--stages: found 3"), HasSubstr("--microbatches: found 7"),
                      HasSubstr("--chunks: found 1"), HasSubstr("--backward: found with --input-grad"),
                      HasSubstr("--format: found 'svg'; accepted: text, list, messages")));
    EXPECT_THAT(refused({"1f1b", "--stages", "2", "--microbatches", "2", "--overlapped", "3"}),
                HasSubstr("accepted with dualpipe, dualpipev"));
    EXPECT_THAT(refused({"1f1b", "--stages", "0"}), HasSubstr("--stages: found '0'"));
    EXPECT_THAT(refused({"1f1b", "--stages", "2", "--microbatches", "2", "--forward", "0"}),
                HasSubstr("--forward: found '0'"));
    EXPECT_THAT(refused({"1f1b", "--stages", "4194304", "--microbatches", "2"}), HasSubstr("at most 4194304"));
    write_all(folder_ / "my.txt", "stages 1\nmicrobatches 1\nF0 B0\n");
    EXPECT_THAT(refused({path("my.txt"), "--stages", "2"}), HasSubstr("--stages: found 2, but the file says it"));
}

TEST_F(ScheduleCommand, WritesPictureAndTrace) {
    const Result result = of("zbv", 4, 8, {"--svg", path("a.svg"), "--trace", path("a.json")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(read_all(folder_ / "a.svg"), AllOf(StartsWith("<svg "), HasSubstr("zbv: 4 stages, 8 microbatches")));
    EXPECT_NE(Json::parse(read_all(folder_ / "a.json"), "trace").find("traceEvents"), nullptr);
    EXPECT_THAT(of("zbv", 4, 8, {"--svg", "/nowhere/a.svg"}).err, HasSubstr("/nowhere/a.svg"));
}

TEST_F(ScheduleCommand, ThePictureIsCutToTheWidthAndSaysSo) {
    Program program(folder_.path(),
                    {"env", "COLUMNS=12", CLEAVE_PROGRAM, "schedule", "1f1b", "--stages", "4", "--microbatches", "8"},
                    {});
    const Result result = program.wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("\n0123......aa\n"), HasSubstr("the first 12 of 33 columns")));
    EXPECT_THAT(of("1f1b", 4, 8).out, Not(HasSubstr("cut to the width")));
}

TEST_F(ScheduleCommand, ExplainsItself) {
    EXPECT_THAT(schedule({"--help"}).out, AllOf(HasSubstr("dualpipev"), HasSubstr("also called pipedream-flush"),
                                                HasSubstr("--input-grad"), HasSubstr("--trace FILE")));
}

// Checked, timed and drawn.
TEST_F(ScheduleCommand, SixtyFourStagesAndAThousandMicrobatches) {
    const auto begin = std::chrono::steady_clock::now();
    const Result result = of("zbv", 64, 1024);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("check: every action once"));
}

}  // namespace
}  // namespace cleave::test

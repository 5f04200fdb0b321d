// The text format of schedules: what is written is read back, and what is wrong is named by line and column.
#include "parallel/schedule_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "parallel/schedule_kinds.h"

namespace cleave::schedules {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string refused(const std::string& text) {
    try {
        parse_schedule(text, "my.txt", {});
    } catch (const UserError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ScheduleFile, WhatIsWrittenIsReadBack) {
    for (const ScheduleKind& kind : schedule_kinds())
        for (const auto listing : {ScheduleListing::computing, ScheduleListing::whole}) {
            const PipelineSchedule made = make_schedule({std::string(kind.name), 4, 10, 0, {}});
            const PipelineSchedule read = parse_schedule(schedule_text(made, listing), "x", {});
            EXPECT_EQ(read.of_stage, made.of_stage) << kind.name;
            EXPECT_EQ(read.name, made.name);
            EXPECT_EQ(read.route, made.route);
            EXPECT_EQ(read.chunks, made.chunks);
            EXPECT_EQ(read.microbatches, made.microbatches);
        }
}

TEST(ScheduleFile, CommentsNamesAndWhatIsLeftOut) {
    const PipelineSchedule schedule = parse_schedule(
        "# mine\r\n\nname  a try of mine # really\nmicrobatches 2\n\tstages 2\n\nF0 F1 B0 I1 W1  # first\nF0 B0 F1 I1 "
        "W1\n",
        "my.txt", {});
    EXPECT_EQ(schedule.name, "a try of mine");
    EXPECT_EQ(schedule.chunks, 1);
    EXPECT_EQ(schedule.route, Route::round_robin);
    EXPECT_EQ(messages_of(schedule).activations, 2U);
    EXPECT_EQ(schedule.of_stage[1].back().type, ActionType::optimizer);
    EXPECT_EQ(parse_schedule("stages 1\nmicrobatches 1\nF0 B0", "folder/my.txt", {}).name, "folder/my.txt");
    EXPECT_EQ(parse_schedule("stages 1\nmicrobatches 1\nroute vee\nF0 F0@1 B0@1 B0\n", "x", {}).chunks, 2);
}

TEST(ScheduleFile, MessagesAreTakenAsWritten) {
    const std::string header = "stages 2\nmicrobatches 1\n";
    EXPECT_EQ(refused(header + "F0 SA0 RG0 B0\nRA0 F0 B0 SG0\n"), "accepted");
    EXPECT_EQ(refused(header + "F0 RG0 SA0 B0 R O\nRA0 F0 B0 SG0\n"),
              "my.txt:3:4: stage 0, action 2 of its list, RG0: it waits for SG0 of stage 1, which stands behind RA0: "
              "that waits for SA0 of stage 0, which stands behind the first: they wait in a circle; accepted: messages "
              "that both stages name in one order");
    EXPECT_THAT(refused(header + "F0 SA0 RG0 B0\nF0 B0 SG0\n"),
                StartsWith("my.txt:4:1: stage 1, action 1 of its list, F0: it comes before the receive"));
}

TEST(ScheduleFile, TheFirstWrongActionIsNamedAtItsPlace) {
    const std::string header = "stages 2\nmicrobatches 2\n";
    EXPECT_THAT(refused(header + "F0 B0 F1 B1\nF0 B1 F1 B0\n"),
                StartsWith("my.txt:4:4: stage 1, action 2 of its list, B1: it comes before its own forward; accepted: "
                           "after F1"));
    EXPECT_THAT(refused(header + "F0 B0 F1 B1\nF0 B0 F1\n"),
                AllOf(StartsWith("my.txt:4:7: stage 1"), HasSubstr("missing")));
    EXPECT_THAT(refused(header + "F0 B0 F1 B1\nF0 B0 F1 I1 W1 W1\n"), StartsWith("my.txt:4:16: stage 1"));
    EXPECT_THAT(refused(header + "F0 F7 B0 F1 B1\nF0 B0 F1 B1\n"),
                AllOf(StartsWith("my.txt:3:4:"), HasSubstr("no microbatch 7; accepted: microbatches from 0 to 1")));
    EXPECT_THAT(refused(header + "F0 B0 F1 B1\nF1 F0 B0 B1\n"), AllOf(StartsWith("my.txt:3:4:"), HasSubstr("circle")));
}

TEST(ScheduleFile, EveryLineThatCannotBeReadIsNamed) {
    EXPECT_THAT(refused(""), AllOf(HasSubstr("no line 'stages'"), HasSubstr("no line 'microbatches'")));
    const std::string found = refused(
        "stagse 2\nstages two\nmicrobatches 0\nchunks 1 2\nroute round\nF0 B-1 C3 F0@ F1x F\nF0 B0\nstages 2\n");
    EXPECT_THAT(found,
                AllOf(HasSubstr("my.txt:1:1: found 'stagse' (did you mean 'stages'?)"),
                      HasSubstr("my.txt:2:8: stages: found 'two'; accepted: an integer from 1"),
                      HasSubstr("my.txt:3:14: microbatches: found '0'"), HasSubstr("my.txt:4:1: 'chunks' has 2 words"),
                      HasSubstr("my.txt:5:7: route: found 'round'; accepted: round_robin, vee, mirrored"),
                      HasSubstr("my.txt:6:4: found 'B-1'"), HasSubstr("my.txt:6:8: found 'C3'")));
    EXPECT_THAT(found, AllOf(HasSubstr("my.txt:6:11: found 'F0@'"), HasSubstr("my.txt:6:15: found 'F1x'"),
                             HasSubstr("my.txt:6:19: found 'F'"), HasSubstr("and perhaps more")));
    EXPECT_THAT(refused("stages 3\nmicrobatches 1\nF0 B0\n"), HasSubstr("found 1 line of actions; accepted: 3"));
    EXPECT_THAT(refused("stages 1\nstages 1\nmicrobatches 1\nF0 B0\n"),
                HasSubstr("my.txt:2:1: 'stages' stands a second"));
    EXPECT_THAT(refused("stages 1\nmicrobatches 1\nroute vee\nchunks 3\nF0 B0\n"), HasSubstr("with the route vee: 2"));
    EXPECT_THAT(refused("stages 2\nmicrobatches 3\nroute mirrored\nF0\nF0\n"), HasSubstr("even numbers"));
    EXPECT_THAT(refused("stages 99999999999\nmicrobatches 1\nF0 B0\n"), HasSubstr("stages: found '99999999999'"));
    EXPECT_THAT(refused("stages 1\nmicrobatches 2000000000\nchunks 2000000000\nF0 B0\n"), HasSubstr("at most 1048576"));
}

}  // namespace
}  // namespace cleave::schedules

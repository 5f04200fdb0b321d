// Schedules as text.
#include "parallel/schedule_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule_kinds.h"

namespace cleave::schedules {
namespace {

using testing::HasSubstr;
using testing::Not;

SchedulePicture drawn(const char* kind, int stages, int microbatches, const ScheduleDurations& durations = {},
                      int columns = 0, int chunks = 0) {
    const PipelineSchedule schedule = make_schedule({kind, stages, microbatches, chunks, durations});
    return draw_schedule(schedule, durations, simulate(schedule, durations), columns);
}

TEST(SchedulePicture, OfSchedulesOfOneChunk) {
    EXPECT_EQ(drawn("naive", 4, 1).rows,
              "0.........aa\n"
              ".0......aa..\n"
              "..0...aa....\n"
              "...0aa......\n");
    EXPECT_EQ(drawn("gpipe", 4, 8).rows,
              "01234567.........aabbccddeeffgghh\n"
              ".01234567......aabbccddeeffgghh..\n"
              "..01234567...aabbccddeeffgghh....\n"
              "...01234567aabbccddeeffgghh......\n");
    EXPECT_EQ(drawn("1f1b", 4, 8).rows,
              "0123......aa4bb5cc6dd7ee.ff.gg.hh\n"
              ".012....aa3bb4cc5dd6ee7ff.gg.hh..\n"
              "..01..aa2bb3cc4dd5ee6ff7gg.hh....\n"
              "...0aa1bb2cc3dd4ee5ff6gg7hh......\n");
    EXPECT_EQ(drawn("naive", 4, 1).slots, 12);
    EXPECT_EQ(drawn("gpipe", 4, 8).slots, 33);
}

TEST(SchedulePicture, OfSplitBackwards) {
    // Figures 2 and 3 of "Zero Bubble Pipeline Parallelism".
    EXPECT_EQ(drawn("zb-h1", 4, 8).rows,
              "0123...aA4bB5cC6dD7eEfFgGhH\n"
              ".012..a3bA4cB5dC6eD7fEgFhGH\n"
              "..01.a2b3cA4dB5eC6fD7gEhFGH\n"
              "...0a1b2c3dA4eB5fC6gD7hEFGH\n");
    EXPECT_EQ(drawn("zb-h2", 4, 8).rows,
              "0123456aA7bBcCdDeEfFgGhH...\n"
              ".01234a5b6cA7dBeCfDgEhFGH..\n"
              "..012a3b4c5d6eA7fBgChDEFGH.\n"
              "...0a1b2c3d4e5f6gA7hBCDEFGH\n");
    EXPECT_THAT(drawn("zb-h1", 4, 8).legend, HasSubstr("capital letter: its weight gradient"));
    EXPECT_THAT(drawn("1f1b", 4, 8).legend, Not(HasSubstr("capital")));
}

TEST(SchedulePicture, OfSeveralChunksHasARowForEach) {
    EXPECT_EQ(drawn("interleaved", 2, 2, {}, 0, 2).rows,
              "01  ..  .  aabb\n"
              "  01..aa.bb\n"
              ".01      aabb..\n"
              ".  0aa1bb    ..\n");
    EXPECT_THAT(drawn("interleaved", 2, 2, {}, 0, 2).legend, HasSubstr("2 rows a stage, one for each chunk"));
}

TEST(SchedulePicture, TenMicrobatchesAndMore) {
    EXPECT_EQ(drawn("gpipe", 1, 12).rows, "012345678901aabbccddeeffgghhiijjaabb\n");
    EXPECT_THAT(drawn("gpipe", 1, 12).legend, HasSubstr("share a letter"));
}

TEST(SchedulePicture, SlotsFitTheTimes) {
    EXPECT_EQ(drawn("gpipe", 1, 1, {10, 10, 10}).rows, "0aa\n");
    EXPECT_EQ(drawn("gpipe", 1, 1, {10, 10, 10}).slot, 10);
    EXPECT_EQ(drawn("gpipe", 1, 1, {1, 1, 0.5}).rows, "00aaa\n");
    EXPECT_EQ(drawn("naive", 2, 1, {1, 1, 1, 0.5}).rows,
              "00........aaaa\n"
              "...00aaaa.....\n");
    const SchedulePicture rounded = drawn("gpipe", 1, 1, {1, 1.4142, 1});
    EXPECT_EQ(rounded.slot, 0.25);
    EXPECT_EQ(rounded.rows, "0000aaaaaaaaaa\n");
}

TEST(SchedulePicture, IsCutAndSaysSo) {
    const SchedulePicture cut = drawn("1f1b", 4, 8, {}, 12);
    EXPECT_EQ(cut.rows,
              "0123......aa\n"
              ".012....aa3b\n"
              "..01..aa2bb3\n"
              "...0aa1bb2cc\n");
    EXPECT_EQ(cut.shown, 12);
    EXPECT_EQ(cut.slots, 33);
}

}  // namespace
}  // namespace cleave::schedules

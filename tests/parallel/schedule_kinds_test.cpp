// The schedules that are made: valid for every number of stages and microbatches, with the bubbles, peaks and messages
// of their papers.
#include "parallel/schedule_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "parallel/schedule_check.h"
#include "parallel/schedule_orders.h"

namespace cleave::schedules {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct Measured {
    PipelineSchedule schedule;
    ScheduleFigures figures;
    std::vector<int> held;
};

Measured measured(const std::string& kind, int stages, int microbatches, const ScheduleDurations& durations = {},
                  int chunks = 0) {
    Measured m{make_schedule({kind, stages, microbatches, chunks, durations}), {}, {}};
    m.figures = figures_of(m.schedule, durations, simulate(m.schedule, durations));
    m.held = peak_held(m.schedule);
    return m;
}

// Figure 4 of "GPipe", figure 4 of the Megatron-LM paper: idle over total (p - 1) / (m + p - 1), and (p - 1) / m over
// useful time, whatever a forward and a backward take.
TEST(ScheduleKinds, GPipeAnd1F1BHaveTheClosedFormulasBubble) {
    for (const char* kind : {"gpipe", "1f1b"})
        for (int p : {1, 2, 3, 4, 7, 8, 16})
            for (int m : {p, p + 1, 2 * p, 3 * p + 1, 64})
                for (const ScheduleDurations& d : {ScheduleDurations{}, ScheduleDurations{2, 1, 4}}) {
                    const auto [schedule, figures, held] = measured(kind, p, m, d);
                    const double slot = d.forward + d.backward();
                    EXPECT_EQ(figures.total, slot * (m + p - 1)) << kind << p << m;
                    EXPECT_DOUBLE_EQ(figures.step.of_total, (p - 1.0) / (m + p - 1)) << kind << p << m;
                    EXPECT_DOUBLE_EQ(figures.step.of_useful, (p - 1.0) / m) << kind << p << m;
                }
}

TEST(ScheduleKinds, TheBubblesOfKnownTables) {
    const auto percent = [](int p, int m) {
        return std::round(1000 * measured("gpipe", p, m).figures.step.of_total) / 10;
    };
    EXPECT_EQ(percent(4, 1), 75.0);
    EXPECT_EQ(percent(4, 4), 42.9);
    EXPECT_EQ(percent(4, 8), 27.3);
    EXPECT_EQ(percent(4, 16), 15.8);
    EXPECT_EQ(percent(4, 32), 8.6);
    EXPECT_EQ(percent(8, 8), 46.7);
    EXPECT_EQ(percent(8, 64), 9.9);
    // At most a tenth with 8 stages: 63 microbatches and no fewer.
    EXPECT_LE(measured("1f1b", 8, 63).figures.step.of_total, 0.1);
    EXPECT_GT(measured("1f1b", 8, 62).figures.step.of_total, 0.1);
    EXPECT_EQ(measured("naive", 4, 1).figures.step.of_total, 0.75);
    EXPECT_EQ(measured("naive", 4, 8).figures.step.of_total, 0.75);
}

TEST(ScheduleKinds, NaiveLeavesAllButOneStageIdle) {
    for (int p : {1, 2, 5, 8})
        for (int m : {1, 7}) EXPECT_DOUBLE_EQ(measured("naive", p, m).figures.step.of_total, 1 - 1.0 / p);
}

TEST(ScheduleKinds, FewerMicrobatchesThanStagesRun) {
    for (int m : {1, 2, 3}) {
        EXPECT_DOUBLE_EQ(measured("1f1b", 4, m).figures.step.of_total, 3.0 / (m + 3));
        EXPECT_DOUBLE_EQ(measured("gpipe", 4, m).figures.step.of_total, 3.0 / (m + 3));
    }
}

TEST(ScheduleKinds, PeaksOfGPipeAnd1F1B) {
    EXPECT_THAT(measured("naive", 4, 8).held, Each(1));
    EXPECT_THAT(measured("gpipe", 4, 8).held, Each(8));
    EXPECT_THAT(measured("1f1b", 4, 8).held, ElementsAre(4, 3, 2, 1));
    EXPECT_THAT(measured("gpipe", 8, 64).held, Each(64));
    EXPECT_THAT(measured("1f1b", 8, 64).held, ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
    EXPECT_THAT(measured("1f1b", 8, 3).held, ElementsAre(3, 3, 3, 3, 3, 3, 2, 1));
}

// (p - 1) / (v m) of useful time (Narayanan et al. 2021, section 2.2), whatever the remainder of m by p.
TEST(ScheduleKinds, InterleavedHasTheClosedFormulasBubbleForEveryNumberOfMicrobatches) {
    for (int p : {2, 3, 4, 8})
        for (int v : {2, 3, 4})
            for (int m = p; m <= 4 * p + 1; ++m) {
                const Measured of = measured("interleaved", p, m, {}, v);
                EXPECT_DOUBLE_EQ(of.figures.step.of_useful, (p - 1.0) / (v * m)) << p << " " << v << " " << m;
            }
    const Measured known = measured("interleaved", 4, 8, {}, 2);
    EXPECT_DOUBLE_EQ(known.figures.step.of_useful, 0.1875);
    EXPECT_DOUBLE_EQ(known.figures.step.of_total, 3.0 / 19);
    EXPECT_THAT(known.held, ElementsAre(11, 9, 7, 5));
    EXPECT_THAT(interleaved_groups(4, 9), ElementsAre(5, 4));
    EXPECT_THAT(interleaved_groups(4, 11), ElementsAre(6, 5));
    EXPECT_THAT(interleaved_groups(4, 3), ElementsAre(3));
    EXPECT_DOUBLE_EQ(measured("interleaved", 4, 9, {}, 2).figures.step.of_useful, 3.0 / 18);
}

// m (p v - 1) messages in each direction, against m (p - 1): (p v - 1) / (p - 1) times as many.
TEST(ScheduleKinds, MessagesOfInterleavedAgainst1F1B) {
    for (int p : {2, 4, 8})
        for (int v : {2, 3})
            for (int m : {p, 2 * p + 1}) {
                const MessageCount plain = messages_of(measured("1f1b", p, m).schedule);
                const MessageCount chunks = messages_of(measured("interleaved", p, m, {}, v).schedule);
                EXPECT_EQ(plain.activations, static_cast<std::size_t>(m * (p - 1)));
                EXPECT_EQ(chunks.activations, static_cast<std::size_t>(m * (p * v - 1)));
                EXPECT_EQ(chunks.gradients, chunks.activations);
            }
}

// Qi et al. 2023, table 1, F = B = W. Idle of a stage (p - 1) (F + B - W) with B the input gradient alone; zb-h2 has
// none between its first and last action, yet in one step as much as zb-h1.
TEST(ScheduleKinds, ZeroBubble) {
    for (int p : {2, 3, 4, 8})
        for (int m : {2 * p - 1, 2 * p, 5 * p + 1}) {
            const Measured h1 = measured("zb-h1", p, m);
            const Measured h2 = measured("zb-h2", p, m);
            EXPECT_EQ(h1.figures.total, 3 * m + p - 1) << p << " " << m;
            EXPECT_EQ(h2.figures.total, 3 * m + p - 1) << p << " " << m;
            EXPECT_EQ(h1.figures.period, 3 * m + p - 1) << p << " " << m;
            EXPECT_EQ(h2.figures.period, 3 * m) << p << " " << m;
            EXPECT_THAT(h2.figures.own_window, Each(3.0 * m)) << p << " " << m;
            EXPECT_THAT(h1.held, Each(p)) << p << " " << m;
            EXPECT_THAT(h2.held, Each(2 * p - 1)) << p << " " << m;
        }
    const Measured h1 = measured("zb-h1", 4, 8);
    const Measured h2 = measured("zb-h2", 4, 8);
    EXPECT_EQ(h1.figures.total, 27);
    EXPECT_EQ(h2.figures.total, 27);
    EXPECT_EQ(h2.figures.period, 24);
    EXPECT_DOUBLE_EQ(h2.figures.steady.of_total, 0);
    EXPECT_NEAR(h2.figures.step.of_total, 0.111, 0.0005);
    // 1F1B with the same times: 9 slots.
    EXPECT_EQ(measured("1f1b", 4, 8).figures.total - 24, 9);
    // Fewer microbatches than fill the pipeline: no more memory than they need.
    EXPECT_THAT(measured("zb-h2", 4, 3).held, Each(3));
}

// The general idle time of zb-h1, (p - 1) (F + I - W), where W is not longer than F and I.
TEST(ScheduleKinds, ZeroBubbleH1ForOtherTimes) {
    for (int p : {2, 4, 8})
        for (const ScheduleDurations& d : {ScheduleDurations{2, 2, 1}, ScheduleDurations{3, 3, 2}}) {
            const Measured h1 = measured("zb-h1", p, 4 * p, d);
            EXPECT_DOUBLE_EQ(h1.figures.total - h1.figures.busy[0],
                             (p - 1) * (d.forward + d.input_gradient - d.weight_gradient))
                << p;
        }
}

// No idle time between a stage's first and last action, 2 p chunks of activations: p microbatches of a stage.
TEST(ScheduleKinds, ZeroBubbleVee) {
    for (int p : {1, 2, 3, 4, 8, 16})
        for (int m : {2 * p, 3 * p + 1}) {
            const Measured vee = measured("zbv", p, m);
            EXPECT_THAT(vee.figures.own_window, Each(6.0 * m)) << p << " " << m;
            EXPECT_EQ(vee.figures.total, 6 * m + p - 1) << p << " " << m;
            EXPECT_EQ(vee.figures.period, 6 * m) << p << " " << m;
            EXPECT_THAT(vee.held, Each(2 * p)) << p << " " << m;
        }
    for (int m = 1; m < 8; ++m)
        for (int held : measured("zbv", 4, m).held) EXPECT_LE(held, std::min(2 * m, 8));
}

// Qi et al. 2024: at most (p + 2) / 2 and (p + 4) / 3 microbatches of a stage, rounded down (as the authors' table has
// them), and about p / (2 m) and 2 p / (3 m) of bubble.
TEST(ScheduleKinds, ControllableMemory) {
    for (int p : {2, 3, 4, 5, 6, 8, 12, 16}) {
        const int m = 8 * p;
        const Measured half = measured("v-half", p, m);
        const Measured least = measured("v-min", p, m);
        for (int held : half.held) EXPECT_LE(held, 2 * ((p + 2) / 2)) << p;
        for (int held : least.held) EXPECT_LE(held, 2 * ((p + 4) / 3)) << p;
        EXPECT_LE(half.figures.step.of_useful, p / (2.0 * m)) << p;
        EXPECT_LE(least.figures.step.of_useful, 2 * p / (3.0 * m) + 0.01) << p;
    }
    for (const char* kind : {"v-half", "v-min"})  // whatever the times: the places of weight gradients follow them
        for (int p : {2, 4, 8})
            for (const ScheduleDurations& d : {ScheduleDurations{1, 2, 0.5}, ScheduleDurations{3, 1, 2, 0.25}}) {
                const Measured other = measured(kind, p, 9, d);
                EXPECT_EQ(check_schedule(other.schedule), std::nullopt);
                for (int held : other.held)
                    EXPECT_LE(held, 2 * (std::string(kind) == "v-half" ? (p + 2) / 2 : (p + 4) / 3)) << kind << p;
            }
}

// The repository's table: idle (p/2 - 1) (F&B + B - 3 W) with B a whole backward and F&B the two that run together, and
// p + 1 microbatches of activations; dualpipev the same with 2 p in p's place, in chunks.
TEST(ScheduleKinds, DualPipe) {
    for (const bool vee : {false, true})
        for (int half : {1, 2, 4, 8})
            for (const ScheduleDurations& d :
                 {ScheduleDurations{1, 1, 1, 0, 3}, ScheduleDurations{1, 1, 1, 0, 2}, ScheduleDurations{2, 2, 1, 0, 5},
                  ScheduleDurations{2, 3, 1, 0, 6}, ScheduleDurations{3, 3, 2, 0, 8}}) {
                const int p = vee ? half : 2 * half;
                const Measured dual = measured(vee ? "dualpipev" : "dualpipe", p, 2 * p + 4, d);
                double idle = 0;
                for (double busy : dual.figures.busy) idle = std::max(idle, dual.figures.total - busy);
                EXPECT_DOUBLE_EQ(idle, (half - 1) * (d.overlapped + d.backward() - 3 * d.weight_gradient))
                    << vee << half << d.overlapped;
                EXPECT_THAT(dual.held, Each(2 * half + 1));
            }
}

// Every kind, with fewer microbatches than stages, as many, and numbers that divide by nothing.
TEST(ScheduleKinds, AllThatAreMadePassTheCheck) {
    int made = 0;
    for (const ScheduleKind& kind : schedule_kinds())
        for (int p = 1; p <= 9; ++p)
            for (int m : {1, 2, 3, p - 1, p, p + 1, 2 * p - 1, 2 * p, 2 * p + 2, 3 * p + 1}) {
                if (m < 1) continue;
                const ScheduleOptions options{std::string(kind.name), p, m, 0, {}};
                if (!problems_of(options).empty()) continue;
                const PipelineSchedule schedule = make_schedule(options);
                const auto problem = check_schedule(schedule);
                EXPECT_FALSE(problem) << kind.name << " " << p << " " << m << ": " << text_of(*problem);
                ++made;
            }
    EXPECT_GT(made, 700);
}

TEST(ScheduleKinds, OtherTimesGiveValidOrdersOfMessagesToo) {
    for (const ScheduleKind& kind : schedule_kinds())
        for (const ScheduleDurations& d : {ScheduleDurations{0.3, 2, 0.7, 1.5}, ScheduleDurations{5, 0.1, 3, 0}}) {
            const PipelineSchedule schedule = make_schedule({std::string(kind.name), 4, 10, 0, d});
            EXPECT_EQ(check_schedule(schedule), std::nullopt) << kind.name;
        }
}

TEST(ScheduleKinds, WhatAKindForbidsIsRefusedWithWhatItAccepts) {
    const auto refused = [](const ScheduleOptions& options) -> std::string {
        try {
            make_schedule(options);
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(refused({"zbh", 4, 8, 0, {}}), AllOf(HasSubstr("schedule: found 'zbh'"), HasSubstr("zb-h1, zb-h2")));
    EXPECT_THAT(refused({"dualpipe", 3, 5, 4, {}}),
                AllOf(HasSubstr("stages: found 3"), HasSubstr("even numbers, 2 or 4"),
                      HasSubstr("microbatches: found 5, which is odd"), HasSubstr("chunks: found 4")));
    EXPECT_THAT(refused({"dualpipe", 4, 6, 0, {}}), HasSubstr("even numbers from 8 (twice the stages)"));
    EXPECT_THAT(refused({"dualpipev", 4, 7, 0, {}}), HasSubstr("numbers from 8 (twice the stages)"));
    EXPECT_EQ(refused({"dualpipev", 4, 9, 0, {}}), "");
    EXPECT_THAT(refused({"1f1b", 4, 8, 2, {}}), HasSubstr("accepted: 1, or the schedule interleaved"));
    EXPECT_THAT(refused({"interleaved", 4, 8, 1, {}}), HasSubstr("accepted with interleaved: from 2"));
    EXPECT_THAT(refused({"1f1b", 0, 0, 0, {}}),
                AllOf(HasSubstr("stages: found 0; accepted: from 1 to 4096"), HasSubstr("microbatches: found 0")));
    EXPECT_THAT(refused({"1f1b", 1 << 12, 1 << 20, 0, {}}), HasSubstr("at most 1048576 of both multiplied"));
    EXPECT_EQ(make_schedule({"pipedream-flush", 4, 8, 0, {}}).of_stage, make_schedule({"1f1b", 4, 8, 0, {}}).of_stage);
}

}  // namespace
}  // namespace cleave::schedules

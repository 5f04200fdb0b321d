// Times and figures of schedules by hand: small cases whose every start is known.
#include "parallel/schedule_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule_kinds.h"
#include "parallel/schedule_messages.h"

namespace cleave::schedules {
namespace {

using testing::ElementsAre;

std::vector<double> starts(const Timeline& timeline, std::size_t stage) {
    std::vector<double> times;
    for (const TimedAction& timed : timeline[stage]) times.push_back(timed.start);
    return times;
}

TEST(ScheduleSimulation, EveryStartOfASmallStep) {
    const PipelineSchedule schedule = make_schedule({"1f1b", 2, 2, 0, {}});
    const Timeline timeline = simulate(schedule, {});  // F0 F1 B0 B1 and F0 B0 F1 B1, backwards of two
    EXPECT_THAT(starts(timeline, 0), ElementsAre(0, 1, 4, 7));
    EXPECT_THAT(starts(timeline, 1), ElementsAre(1, 2, 4, 5));
    const ScheduleFigures figures = figures_of(schedule, {}, timeline);
    EXPECT_EQ(figures.total, 9);
    EXPECT_EQ(figures.useful, 12);
    EXPECT_THAT(figures.busy, ElementsAre(6, 6));
    EXPECT_THAT(figures.own_window, ElementsAre(9, 6));
    EXPECT_DOUBLE_EQ(figures.step.of_total, 6.0 / 18);
    EXPECT_DOUBLE_EQ(figures.step.of_useful, 6.0 / 12);
}

// A message delays what needs it, and nothing else: with time t for each a microbatch's way to p stages and back takes
// 2 (p - 1) t more.
TEST(ScheduleSimulation, MessagesTakeTime) {
    for (int p : {1, 2, 4})
        for (double t : {0.0, 0.25, 3.0}) {
            const ScheduleDurations durations{1, 1, 1, t};
            const PipelineSchedule schedule = make_schedule({"naive", p, 1, 0, durations});
            EXPECT_DOUBLE_EQ(simulate(schedule, durations)[0].back().end, 3 * p + 2 * (p - 1) * t);
        }
    // All forwards behind each other: only the first one's way is seen.
    const ScheduleDurations durations{1, 1, 1, 0.5};
    const PipelineSchedule schedule = make_schedule({"gpipe", 4, 8, 0, durations});
    EXPECT_DOUBLE_EQ(simulate(schedule, durations)[0].back().end, 33 + 2 * 3 * 0.5);
}

// Adding the messages changes no time, whatever the times are.
TEST(ScheduleSimulation, TheListsWithMessagesTakeAsLongAsTheirComputing) {
    for (const ScheduleKind& kind : schedule_kinds())
        for (const ScheduleDurations& d : {ScheduleDurations{}, ScheduleDurations{1, 2, 0.5, 0.75}}) {
            const PipelineSchedule schedule = make_schedule({std::string(kind.name), 4, 9 + 1, 0, d});
            PipelineSchedule computing = schedule;
            for (Schedule& list : computing.of_stage)
                std::erase_if(list, [](const ScheduleAction& action) { return !is_compute(action.type); });
            const Timeline with = simulate(schedule, d);
            const Timeline alone = simulate(computing, d);
            for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(starts(with, s), starts(alone, s)) << kind.name << s;
        }
}

// What a list sends late arrives late.
TEST(ScheduleSimulation, AMessageGoesOffWhenItsSendIsIssued) {
    PipelineSchedule schedule = make_schedule({"gpipe", 2, 2, 0, {}});
    Schedule& list = schedule.of_stage[0];  // F0 SA0 F1 SA1 ...
    ASSERT_EQ(list[1].type, ActionType::send_activation);
    std::swap(list[1], list[2]);
    EXPECT_THAT(starts(simulate(schedule, {}), 1), ElementsAre(2, 3, 4, 6));
}

TEST(ScheduleSimulation, StepsThatFollowEachOther) {
    // Without a norm a stage goes on as soon as it is done: the warm-up of the next step fills this one's end. In 1F1B
    // the first stage is both the first to begin and the last to end, so that nothing is won.
    const PipelineSchedule schedule = make_schedule({"1f1b", 4, 8, 0, {}});
    const ScheduleFigures figures = figures_of(schedule, {}, simulate(schedule, {}));
    EXPECT_EQ(figures.period, 33);
    EXPECT_DOUBLE_EQ(figures.steady.of_useful, 0.375);
    const PipelineSchedule one = make_schedule({"gpipe", 1, 8, 0, {}});
    const ScheduleFigures alone = figures_of(one, {}, simulate(one, {}));
    EXPECT_EQ(alone.period, 24);
    EXPECT_EQ(alone.step.of_total, 0);
}

TEST(ScheduleSimulation, AForwardAndABackwardTogether) {
    const ScheduleDurations together{1, 1, 1, 0, 2};
    const PipelineSchedule schedule = make_schedule({"dualpipe", 2, 4, 0, together});
    const Timeline timeline = simulate(schedule, together);
    int pairs = 0;
    for (std::size_t i = 1; i < timeline[0].size(); ++i)
        if (timeline[0][i].start < timeline[0][i - 1].end) {
            EXPECT_EQ(timeline[0][i].action.type, ActionType::backward);
            EXPECT_EQ(timeline[0][i - 1].action.type, ActionType::forward);
            EXPECT_EQ(timeline[0][i].start, timeline[0][i - 1].start);
            EXPECT_EQ(timeline[0][i].end, timeline[0][i].start + 2);
            ++pairs;
        }
    EXPECT_EQ(pairs, 2);
    EXPECT_EQ(figures_of(schedule, together, timeline).busy[0], 4 * 3 - pairs);
}

}  // namespace
}  // namespace cleave::schedules

// The checker: every kind of error is planted in a valid schedule and named at its place; nothing valid is refused.
#include "parallel/schedule_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule_kinds.h"
#include "parallel/schedule_messages.h"

namespace cleave::schedules {
namespace {

using testing::AllOf;
using testing::HasSubstr;

PipelineSchedule made(const char* kind, int stages, int microbatches) {
    return make_schedule({kind, stages, microbatches, 0, {}});
}

std::string verdict(const PipelineSchedule& schedule) {
    const auto problem = check_schedule(schedule);
    return problem ? text_of(*problem) : "valid";
}

std::size_t position_of(const Schedule& list, const char* text) {
    for (std::size_t i = 0; i < list.size(); ++i)
        if (text_of(list[i]) == text) return i;
    ADD_FAILURE() << "no " << text;
    return 0;
}

// The list with one action moved before another.
Schedule moved(Schedule list, const char* what, const char* before) {
    const ScheduleAction action = list[position_of(list, what)];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(position_of(list, what)));
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(position_of(list, before)), action);
    return list;
}

Schedule without(Schedule list, const char* what) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(position_of(list, what)));
    return list;
}

TEST(ScheduleCheck, ActionsThatAreMissingOrTwice) {
    for (const char* action : {"F2", "B2"}) {
        PipelineSchedule schedule = made("1f1b", 2, 4);
        const std::size_t size = schedule.of_stage[1].size();
        // On the last stage nothing else hangs on them but their messages.
        schedule.of_stage[1] = without(schedule.of_stage[1], action);
        const std::string found = verdict(schedule);
        if (std::string(action) == "F2")
            EXPECT_THAT(found, AllOf(HasSubstr("stage 1"), HasSubstr("B2: it comes before its own forward")));
        else
            EXPECT_THAT(found, AllOf(HasSubstr("stage 1"), HasSubstr("SG2: it comes before the backward")));
        schedule = made("1f1b", 2, 4);
        schedule.of_stage[1].insert(
            schedule.of_stage[1].begin() + static_cast<std::ptrdiff_t>(position_of(schedule.of_stage[1], "B3")),
            schedule.of_stage[1][position_of(schedule.of_stage[1], action)]);
        EXPECT_THAT(verdict(schedule), AllOf(HasSubstr("stage 1"), HasSubstr(std::string(", ") + action + ": "),
                                             testing::AnyOf(HasSubstr("a second time"), HasSubstr("there already"))));
        EXPECT_EQ(schedule.of_stage[1].size(), size + 1);
    }
    PipelineSchedule schedule = made("zb-h1", 2, 4);
    schedule.of_stage[0] = without(schedule.of_stage[0], "W1");
    EXPECT_THAT(verdict(schedule), AllOf(HasSubstr("stage 0"), HasSubstr("W1: it is missing")));
    schedule = made("gpipe", 1, 2);
    schedule.of_stage[0] = without(without(schedule.of_stage[0], "F1"), "B1");
    schedule.of_stage[0][1].last_backward = true;
    EXPECT_THAT(verdict(schedule), HasSubstr("F1: it is missing"));
}

TEST(ScheduleCheck, AWeightGradientComesAfterItsOwnInputGradient) {
    PipelineSchedule schedule = made("zb-h1", 2, 4);
    schedule.of_stage[0] = moved(schedule.of_stage[0], "W2", "I2");
    EXPECT_THAT(verdict(schedule), AllOf(HasSubstr("stage 0"), HasSubstr("W2: it comes before its own input gradient"),
                                         HasSubstr("accepted: after I2")));
    schedule = made("1f1b", 2, 4);
    Schedule& list = schedule.of_stage[1];
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(position_of(list, "F2")),
                {ActionType::weight_gradient, 1, 0, false});
    EXPECT_THAT(verdict(schedule), HasSubstr("W1: its backward, weight gradients with it, is there already"));
}

TEST(ScheduleCheck, MessagesHaveTwoEndsInTheirPlaces) {
    const PipelineSchedule good = made("1f1b", 3, 4);
    const auto with = [&](std::size_t stage, Schedule list) {
        PipelineSchedule schedule = good;
        schedule.of_stage[stage] = std::move(list);
        return verdict(schedule);
    };
    EXPECT_EQ(verdict(good), "valid");
    EXPECT_THAT(with(0, without(good.of_stage[0], "SA2")),
                AllOf(HasSubstr("stage 0"), HasSubstr("SA2: it is missing")));
    EXPECT_THAT(with(1, without(good.of_stage[1], "SG2")),
                AllOf(HasSubstr("stage 1"), HasSubstr("SG2: it is missing")));
    EXPECT_THAT(with(1, without(good.of_stage[1], "RA2")),
                AllOf(HasSubstr("stage 1"), HasSubstr("F2: it comes before the receive of the activation"),
                      HasSubstr("accepted: after RA2")));
    EXPECT_THAT(with(0, without(good.of_stage[0], "RG0")),
                HasSubstr("B0: it comes before the receive of the gradient"));
    EXPECT_THAT(with(0, moved(good.of_stage[0], "SA1", "F1")), HasSubstr("SA1: it comes before the forward"));
    EXPECT_THAT(with(1, moved(good.of_stage[1], "SG1", "B1")), HasSubstr("SG1: it comes before the backward"));
    for (const ActionType type : {ActionType::receive_activation, ActionType::send_gradient}) {
        Schedule list = good.of_stage[0];
        list.insert(list.end() - 2, {type, 0, 0, false});
        EXPECT_THAT(with(0, list), HasSubstr("the model ends here"));
    }
    PipelineSchedule vee = made("zbv", 2, 4);
    vee.of_stage[1].insert(vee.of_stage[1].end() - 2, {ActionType::send_activation, 0, 0, false});
    EXPECT_THAT(verdict(vee), AllOf(HasSubstr("SA0:"), HasSubstr("handed over without a message")));
}

TEST(ScheduleCheck, TheEndOfTheStep) {
    const PipelineSchedule good = made("1f1b", 2, 3);
    PipelineSchedule schedule = good;
    schedule.of_stage[1].pop_back();
    EXPECT_THAT(verdict(schedule), AllOf(HasSubstr("stage 1"), HasSubstr("O: it is missing")));
    schedule = good;
    std::swap(schedule.of_stage[0].end()[-1], schedule.of_stage[0].end()[-2]);
    EXPECT_THAT(verdict(schedule), HasSubstr("O: the update comes before the reduction"));
    schedule = good;
    schedule.of_stage[0] = moved(good.of_stage[0], "R", "B2");
    EXPECT_THAT(verdict(schedule), HasSubstr("B2: it comes after the reduction of the gradients"));
    schedule = good;
    schedule.of_stage[0].push_back({ActionType::reduce, -1, 0, false});
    EXPECT_THAT(verdict(schedule), HasSubstr("R: a second reduction"));
}

TEST(ScheduleCheck, TheLastBackwardOfEachChunkIsMarked) {
    for (const char* kind : {"1f1b", "interleaved", "zbv", "dualpipe"}) {
        const PipelineSchedule good = made(kind, 2, 4);
        int marks = 0;
        for (std::size_t s = 0; s < 2; ++s)
            for (std::size_t i = 0; i < good.of_stage[s].size(); ++i) {
                marks += good.of_stage[s][i].last_backward ? 1 : 0;
                PipelineSchedule schedule = good;
                ScheduleAction& action = schedule.of_stage[s][i];
                if (!is_compute(action.type)) continue;
                action.last_backward = !action.last_backward;
                const auto problem = check_schedule(schedule);
                ASSERT_TRUE(problem);
                EXPECT_EQ(problem->position, i);
                EXPECT_THAT(problem->wrong, HasSubstr("marked"));
            }
        EXPECT_EQ(marks, 2 * good.chunks);
    }
}

TEST(ScheduleCheck, NumbersAndRoutes) {
    PipelineSchedule schedule = made("1f1b", 2, 3);
    schedule.of_stage[0][0].microbatch = 3;
    EXPECT_THAT(verdict(schedule), HasSubstr("stage 0, action 1 of its list, F3: there is no microbatch 3; accepted: "
                                             "microbatches from 0 to 2"));
    schedule = made("1f1b", 2, 3);
    schedule.of_stage[1][position_of(schedule.of_stage[1], "F0")].chunk = 1;
    EXPECT_THAT(verdict(schedule), HasSubstr("F0@1: there is no chunk 1; accepted: chunks from 0 to 0"));
    schedule = made("dualpipe", 2, 4);
    schedule.of_stage[0][position_of(schedule.of_stage[0], "F1")].chunk = 1;
    EXPECT_THAT(verdict(schedule), AllOf(HasSubstr("F1@1: on the route 'mirrored'"), HasSubstr("accepted: F1")));
    // A vee's turn: the second chunk's forward needs the first one's on the same stage.
    schedule = made("zbv", 1, 2);
    schedule.of_stage[0] = moved(schedule.of_stage[0], "F0@1", "F0");
    EXPECT_THAT(verdict(schedule), HasSubstr("F0@1: it comes before what it needs from the stage's other chunk"));
}

// Two stages that each compute what the other would need first.
TEST(ScheduleCheck, ComputingInACircle) {
    PipelineSchedule schedule{"", 2, 1, 2, Route::round_robin, {}};
    const auto F = ActionType::forward;
    const auto B = ActionType::backward;
    schedule.of_stage = {{{F, 0, 0, false}, {B, 0, 0, false}, {F, 1, 0, false}, {B, 1, 0, false}},
                         {{F, 1, 0, false}, {F, 0, 0, false}, {B, 0, 0, false}, {B, 1, 0, false}}};
    const auto problem = check_order(schedule);
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->stage, 0);
    EXPECT_EQ(problem->position, 1U);
    EXPECT_THAT(text_of(*problem), AllOf(HasSubstr("B0: it waits for B0 of stage 1, which stands behind F1: that waits "
                                                   "for F1 of stage 0"),
                                         HasSubstr("circle")));
}

// Both stages of a pair send first: with a buffer it runs, without one it hangs.
TEST(ScheduleCheck, SendsThatMeetNoReceiveDeadlockWithoutBuffers) {
    PipelineSchedule schedule = made("1f1b", 2, 4);
    EXPECT_EQ(verdict(schedule), "valid");
    schedule.of_stage[1] = moved(schedule.of_stage[1], "RA1", "F1");
    const auto problem = check_schedule(schedule);
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->stage, 0);
    EXPECT_EQ(problem->position, position_of(schedule.of_stage[0], "SA1"));
    EXPECT_THAT(text_of(*problem), AllOf(HasSubstr("SA1: it waits for RA1 of stage 1, which stands behind SG0: that "
                                                   "waits for RG0 of stage 0"),
                                         HasSubstr("they wait in a circle")));
}

TEST(ScheduleCheck, ThePeakOfHeldActivationsIsCounted) {
    PipelineSchedule schedule = made("zb-h1", 2, 4);
    EXPECT_THAT(peak_held(schedule), testing::ElementsAre(2, 2));
    schedule.of_stage[1] = moved(schedule.of_stage[1], "W0", "W2");
    EXPECT_THAT(peak_held(schedule), testing::ElementsAre(2, 3));
}

// Each action is looked at a fixed number of times: what is wrong at the end of a large one is found as well.
TEST(ScheduleCheck, LargeSchedules) {
    PipelineSchedule schedule = made("zbv", 64, 1024);
    EXPECT_EQ(verdict(schedule), "valid");
    schedule.of_stage[63] = without(schedule.of_stage[63], "W1000");
    EXPECT_THAT(verdict(schedule), AllOf(HasSubstr("stage 63"), HasSubstr("W1000: it is missing")));
}

}  // namespace
}  // namespace cleave::schedules

// When each action of a schedule runs, if forwards and backwards take the times that are given: a stage does its list
// in order, an action as soon as the stage is free and what it needs is there.
//
// A message travels beside the computing and takes `message` from the moment when both its ends have been issued;
// messages do not hinder each other. Where a schedule names no messages (schedule_messages.h adds them), a tensor for
// another stage goes off when it is made. Reduction and update take no time. Units of time are the caller's.
//
// *Bubble*: idle time over the total (p stages times the time from the first action to the last) or over the useful
// time (the sum of all actions): two figures of one schedule, and each is always named with its denominator. The window
// is one step; or steady repetition, steps that follow each other, where a stage begins the next step as soon as it is
// done with this one. A norm over all stages before the update (clipping) keeps every stage until the last one: with it
// a step takes the whole of its own window, however often it is repeated.
// Thread rule: pure functions.
#pragma once

#include <vector>

#include "parallel/schedule_actions.h"

namespace cleave {

// Of one action, that is of one microbatch through one chunk; messages may take no time, the others must take some.
struct ScheduleDurations {
    double forward = 1;
    double input_gradient = 1;
    double weight_gradient = 1;
    double message = 0;
    // Of a forward and the whole backward of another chunk right behind it, if they run together (DualPipe); 0: they do
    // not. The start of both then waits for both their inputs, and their results are there at the end. Messages are
    // taken to be issued in time.
    double overlapped = 0;
    double backward() const { return input_gradient + weight_gradient; }
    double of(ActionType type) const;
};

struct TimedAction {
    ScheduleAction action;
    double start;
    double end;
};
// The computing of each stage, in order.
using Timeline = std::vector<std::vector<TimedAction>>;

// The times of one step. `begin`: when each stage may begin (empty: at 0). The schedule must have passed
// check_schedule or check_order (schedule_check.h).
Timeline simulate(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                  const std::vector<double>& begin = {});

struct Bubble {
    double of_total;
    double of_useful;
};

struct ScheduleFigures {
    double total = 0;                // one step, all stages
    double useful = 0;               // the sum over all stages' actions
    std::vector<double> busy;        // of each stage
    std::vector<double> own_window;  // of each stage, from its own first action to its own last
    Bubble step{};      // the window is one step; also what steady repetition with a norm over all stages has
    double period = 0;  // between steps that follow each other with no such norm
    Bubble steady{};    // of those
};
ScheduleFigures figures_of(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                           const Timeline& timeline);

}  // namespace cleave

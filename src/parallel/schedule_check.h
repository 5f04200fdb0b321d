// Whether a schedule can run, and does a step: checked before it is run, drawn or simulated, in time linear in its
// actions.
//
//   - every microbatch goes once forward through every virtual stage, and once backward, whole or in halves, each
//   action
//     after what it needs, and a weight gradient only after its own input gradient;
//   - every message has its two ends, once, after what it carries is made and before it is used; none leads nowhere or
//     from a stage to itself;
//   - each chunk's last action that makes weight gradients says so, and reduction and update stand once, at the end;
//   - the lists end even if every message were a meeting: no buffer at all, a send and its receive wait for each other.
//     Whatever buffers a transport has, more of them never make it wait longer.
//
// Where several things are wrong the first is told: of the lowest stage, there the first in its list. Only then are
// waits in a circle looked for. Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>

#include "parallel/schedule_actions.h"

namespace cleave {

struct ScheduleProblem {
    int stage;
    std::size_t position;   // in the stage's list; its size where something is missing
    ScheduleAction action;  // the one that stands there, or the missing one
    std::string wrong;
    std::string right;
};
// "stage 1, action 4 of its list, W2: ...; accepted: ..."; actions count from 1.
std::string text_of(const ScheduleProblem& problem);

// Of the computing alone: what holds before messages are added and the step is finished (schedule_messages.h).
std::optional<ScheduleProblem> check_order(const PipelineSchedule& schedule);
// Of all.
std::optional<ScheduleProblem> check_schedule(const PipelineSchedule& schedule);

}  // namespace cleave

// Waits in a circle: the lists of a schedule are run, without times, until they end or all that are left wait for each
// other. Each list by itself is in order (schedule_check.h looks first). Linear in the actions.
// Thread rule: pure functions.
#pragma once

#include <optional>

#include "parallel/schedule_check.h"

namespace cleave {

// Computing alone: an action waits for what another stage has not computed yet.
std::optional<ScheduleProblem> find_computing_circle(const PipelineSchedule& schedule);
// Messages as meetings: a send and its receive wait for each other.
std::optional<ScheduleProblem> find_message_circle(const PipelineSchedule& schedule);

}  // namespace cleave

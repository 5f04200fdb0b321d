// From the order in which stages compute to whole schedules: messages, the end of the step, and which backward is the
// last of its chunk.
//
// The order of messages. The computing is simulated by time (schedule_simulation.h); its actions in the order in which
// they end make one order of the whole pipeline, in which each message stands right after the action that makes what it
// carries, as one event of two stages. Each stage's list is its part of that order. So the lists do not deadlock even
// where a send waits for its receive and the other way round (no buffer at all): the whole order is a way to run them.
// A receive is issued no later than its message, and before the action that its stage is at by then. Between chunks of
// one stage there is no message.
// Thread rule: pure functions.
#pragma once

#include "parallel/schedule_simulation.h"

namespace cleave {

// Adds the messages. The lists hold none, and pass check_order (schedule_check.h).
void add_messages(PipelineSchedule& schedule, const ScheduleDurations& durations);

// Marks each chunk's last action that makes weight gradients, and ends each list with reduction and update where it
// does not yet.
void finish_step(PipelineSchedule& schedule);

}  // namespace cleave

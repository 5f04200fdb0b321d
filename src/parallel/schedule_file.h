// Schedules as text, for hand-written ones and for changing those that are made:
//
//     # comments, up to the end of the line
//     name 1f1b of mine
//     stages 2
//     microbatches 3
//     chunks 1             # of a stage; 1 where it is not said
//     route round_robin    # round_robin, vee or mirrored (schedule.h); round_robin where it is not said
//     F0 F1 B0 F2 B1 B2
//     F0 I0 F1 W0 B1 F2 B2
//
// Lines of a header in any order, then a line of actions for each stage, the first stage first. An action is its
// letters and the microbatch, with @c behind it in chunk c (0 where it is not said): F forward, B backward, I input
// gradient, W weight gradient; microbatches count from 0. Where the file names no messages they are added
// (schedule_messages.h). Where it does it must name all of them: SA and RA send and receive an activation, SG and RG a
// gradient; a message has the microbatch and chunk of the action on its own stage that made it or that needs it. R and
// O, the reduction and the update, may stand at the end of a line and are added where they do not. Thread rule: pure
// functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/schedule_check.h"
#include "parallel/schedule_simulation.h"

namespace cleave {

// Parses, adds what is not named, checks. `durations` order the messages that are added. Throws UserError with every
// line that cannot be read, or with the first action that is wrong: "source:line:column: ...".
PipelineSchedule parse_schedule(std::string_view text, std::string_view source, const ScheduleDurations& durations);

enum class ScheduleListing : std::uint8_t { computing, whole };
// The same text, of the computing alone or with messages, reduction and update.
std::string schedule_text(const PipelineSchedule& schedule, ScheduleListing listing);

std::string_view name_of(Route route);

}  // namespace cleave

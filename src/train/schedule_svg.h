// A schedule of a pipeline as a picture: a row a stage, time to the right, an action as wide as it takes time. Colours
// tell what it is, their depth its chunk, the number its microbatch (where there is room). The title has the bubble,
// each figure with its denominator and window. Thread rule: a pure function.
#pragma once

#include <string>

#include "parallel/schedule_simulation.h"

namespace cleave {

// The timeline is that of a simulation, in its units, or a measured one.
std::string schedule_svg(const PipelineSchedule& schedule, const Timeline& timeline, const ScheduleFigures& figures);

}  // namespace cleave

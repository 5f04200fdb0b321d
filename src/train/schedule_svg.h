// A schedule of a pipeline as a picture: a row a stage, time to the right, an action as wide as it takes time. Colours
// tell what it is, their depth its chunk, the number its microbatch (where there is room). The title has the bubble,
// each figure with its denominator and window. Thread rule: a pure function.
#pragma once

#include <span>
#include <string>

#include "parallel/schedule_simulation.h"

namespace cleave {

// The timeline is that of a simulation, in its units, or a measured one.
std::string schedule_svg(const PipelineSchedule& schedule, const Timeline& timeline, const ScheduleFigures& figures);

// Several timelines of one schedule, one above the other on one time scale, on which the first one's actions are
// readable.
struct SchedulePanel {
    std::string title;
    std::string lines[2];  // below the title
    const Timeline& timeline;
    double total;  // from 0 to the end of the step, which may be behind the last action's
};
std::string schedule_svg(const PipelineSchedule& schedule, std::span<const SchedulePanel> panels,
                         std::string_view unit);

}  // namespace cleave

// What `cleave schedule` says of a schedule that has passed its check.
// Thread rule: pure functions, but for the width of the terminal.
#pragma once

#include <string>

#include "base/json.h"
#include "parallel/schedule_simulation.h"

namespace cleave::cli {

// Picture, figures, table of stages, messages, verdict. The picture is cut at `columns` (0: not).
std::string schedule_report(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                            const Timeline& timeline, const ScheduleFigures& figures, int columns);
Json schedule_document(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                       const ScheduleFigures& figures);

// Columns that standard output shows: $COLUMNS where that is a number, else the terminal's; 0 where it is no terminal.
int output_columns();

}  // namespace cleave::cli

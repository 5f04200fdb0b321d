// A schedule as text: a row a stage, the first stage on top, a column a slot of time.
//
//     0123......aa4bb5cc6dd7ee.ff.gg.hh      a digit: a forward of that microbatch
//     .012....aa3bb4cc5dd6ee7ff.gg.hh..      a small letter: its backward, or where that is split its input gradient
//     ..01..aa2bb3cc4dd5ee6ff7gg.hh....      a capital letter: its weight gradient
//     ...0aa1bb2cc3dd4ee5ff6gg7hh......      .: idle
//
// An action fills as many slots as it takes time. Microbatches are 0 a A, 1 b B, ... 9 j J; the tenth is 0 again.
// With several chunks a stage has a row for each, its first chunk on top: an action stands in the row of its chunk, and
// the others are blank there; idle slots are . in all.
// Thread rule: pure functions.
#pragma once

#include <string>

#include "parallel/schedule_simulation.h"

namespace cleave {

struct SchedulePicture {
    std::string rows;    // lines
    std::string legend;  // lines
    int slots = 0;       // of the whole picture
    int shown = 0;       // of them, from the first
    double slot = 1;     // in the units of durations
};
// At most `columns` slots (0: all) are drawn. A slot is the longest time of which all durations are multiples, or,
// where that is less than an eighth of the shortest one, a quarter of the shortest, to which times are rounded.
SchedulePicture draw_schedule(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                              const Timeline& timeline, int columns);
// With a slot that is given, to which times are rounded: for measured timelines, and what stands beside them.
SchedulePicture draw_schedule(const PipelineSchedule& schedule, double slot, const Timeline& timeline, int columns);

}  // namespace cleave

// A schedule as a trace for ui.perfetto.dev or chrome://tracing: a process for the pipeline, a thread a stage. One unit
// of time is a millisecond.
// Thread rule: a pure function.
#pragma once

#include <span>
#include <string>

#include "parallel/schedule_simulation.h"

namespace cleave {

std::string schedule_trace(const PipelineSchedule& schedule, const Timeline& timeline);

// Several timelines, a process each.
struct TracedTimeline {
    std::string name;
    const Timeline& timeline;
};
std::string schedule_trace(std::span<const TracedTimeline> timelines);

}  // namespace cleave

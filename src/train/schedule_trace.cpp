#include "train/schedule_trace.h"

#include <fmt/format.h>

#include <iterator>

#include "base/json.h"

namespace cleave {

std::string schedule_trace(std::span<const TracedTimeline> timelines) {
    constexpr double kMicroseconds = 1000;  // a unit
    std::string out = "{\"traceEvents\":[\n";
    const auto named = [&out](std::string_view what, std::size_t process, std::size_t thread, const std::string& name) {
        fmt::format_to(std::back_inserter(out),
                       R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})"
                       ",\n",
                       what, process, thread, Json(name).dump());
    };
    for (std::size_t process = 0; process < timelines.size(); ++process) {
        const Timeline& timeline = timelines[process].timeline;
        named("process_name", process, 0, timelines[process].name);
        for (std::size_t stage = 0; stage < timeline.size(); ++stage) {
            named("thread_name", process, stage, fmt::format("stage {}", stage));
            for (const auto& [action, start, end] : timeline[stage])
                fmt::format_to(std::back_inserter(out),
                               R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
                               R"("args":{{"microbatch":{},"chunk":{}}}}})"
                               ",\n",
                               text_of(action), words_of(action.type), process, stage, start * kMicroseconds,
                               (end - start) * kMicroseconds, action.microbatch, action.chunk);
        }
    }
    out.erase(out.size() - 2);  // the last comma
    return out + "\n]}\n";
}

std::string schedule_trace(const PipelineSchedule& schedule, const Timeline& timeline) {
    const TracedTimeline only{schedule.name, timeline};
    return schedule_trace(std::span(&only, 1));
}

}  // namespace cleave

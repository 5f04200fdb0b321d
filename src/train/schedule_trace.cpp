#include "train/schedule_trace.h"

#include <fmt/format.h>

#include <iterator>

#include "base/json.h"

namespace cleave {

std::string schedule_trace(const PipelineSchedule& schedule, const Timeline& timeline) {
    constexpr double kMicroseconds = 1000;  // a unit
    std::string out = "{\"traceEvents\":[\n";
    const auto named = [&out](std::string_view what, std::size_t thread, const std::string& name) {
        fmt::format_to(std::back_inserter(out),
                       R"({{"ph":"M","name":"{}","pid":0,"tid":{},"args":{{"name":{}}}}})"
                       ",\n",
                       what, thread, Json(name).dump());
    };
    named("process_name", 0, schedule.name);
    for (std::size_t stage = 0; stage < timeline.size(); ++stage) {
        named("thread_name", stage, fmt::format("stage {}", stage));
        for (const auto& [action, start, end] : timeline[stage])
            fmt::format_to(std::back_inserter(out),
                           R"({{"ph":"X","name":"{}","cat":"{}","pid":0,"tid":{},"ts":{},"dur":{},)"
                           R"("args":{{"microbatch":{},"chunk":{}}}}})"
                           ",\n",
                           text_of(action), words_of(action.type), stage, start * kMicroseconds,
                           (end - start) * kMicroseconds, action.microbatch, action.chunk);
    }
    out.erase(out.size() - 2);  // the last comma
    return out + "\n]}\n";
}

}  // namespace cleave

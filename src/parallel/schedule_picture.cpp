#include "parallel/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace cleave {
namespace {

// The durations that occur.
std::set<double> durations_in(const Timeline& timeline, const ScheduleDurations& durations) {
    std::set<double> found;
    bool types[kActionTypes] = {};
    for (const auto& stage : timeline)
        for (const TimedAction& timed : stage) types[static_cast<std::size_t>(timed.action.type)] = true;
    for (int type = 0; type < kActionTypes; ++type)
        if (types[type]) found.insert(durations.of(static_cast<ActionType>(type)));
    for (const double also : {durations.message, durations.overlapped})
        if (also > 0) found.insert(also);
    return found;
}

double slot_of(const std::set<double>& durations) {
    constexpr int kFinest = 8;
    const double least = *durations.begin();
    for (int parts = 1; parts <= kFinest; ++parts) {
        const double slot = least / parts;
        const auto whole = [slot](double d) { return std::abs(d / slot - std::round(d / slot)) < 1e-6; };
        if (std::all_of(durations.begin(), durations.end(), whole)) return slot;
    }
    return least / 4;
}

char letter_of(const ScheduleAction& action) {
    const int number = action.microbatch % 10;
    switch (action.type) {
        case ActionType::forward: return static_cast<char>('0' + number);
        case ActionType::weight_gradient: return static_cast<char>('A' + number);
        default: return static_cast<char>('a' + number);
    }
}

std::string legend_of(const PipelineSchedule& schedule, const Timeline& timeline) {
    bool split = false;
    bool whole = false;
    for (const auto& stage : timeline)
        for (const TimedAction& timed : stage) {
            split |= timed.action.type == ActionType::input_gradient;
            whole |= timed.action.type == ActionType::backward;
        }
    std::string legend = "digit: forward of that microbatch; small letter: ";
    legend += split && whole ? "its backward, or input gradient" : split ? "its input gradient" : "its backward";
    legend += split ? "; capital letter: its weight gradient; .: idle\n" : "; .: idle\n";
    if (schedule.microbatches > 10)
        legend += "microbatches count from 0 and share a letter with every tenth one after it\n";
    if (schedule.chunks > 1)
        legend += fmt::format("{} rows a stage, one for each chunk, the first stage on top\n", schedule.chunks);
    else
        legend += "a row a stage, the first stage on top\n";
    return legend;
}

}  // namespace

SchedulePicture draw_schedule(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                              const Timeline& timeline, int columns) {
    return draw_schedule(schedule, slot_of(durations_in(timeline, durations)), timeline, columns);
}

SchedulePicture draw_schedule(const PipelineSchedule& schedule, double slot, const Timeline& timeline, int columns) {
    SchedulePicture picture;
    picture.legend = legend_of(schedule, timeline);
    picture.slot = slot;
    const auto slot_at = [&](double time) { return static_cast<std::int64_t>(std::llround(time / picture.slot)); };
    std::int64_t slots = 0;
    for (const auto& stage : timeline)
        if (!stage.empty()) slots = std::max(slots, slot_at(stage.back().end));
    picture.slots = static_cast<int>(std::min<std::int64_t>(slots, std::numeric_limits<int>::max()));
    constexpr int kMostCharacters = 1 << 26;
    const int most = std::max(1, kMostCharacters / schedule.stages / schedule.chunks);
    picture.shown = std::min({columns > 0 ? columns : most, most, picture.slots});
    for (const auto& stage : timeline) {
        std::vector<std::string> rows(static_cast<std::size_t>(schedule.chunks),
                                      std::string(static_cast<std::size_t>(picture.shown), '.'));
        for (const TimedAction& timed : stage) {
            const auto begin = static_cast<std::size_t>(std::min<std::int64_t>(slot_at(timed.start), picture.shown));
            const auto end = static_cast<std::size_t>(std::min<std::int64_t>(slot_at(timed.end), picture.shown));
            for (std::string& row : rows)
                for (std::size_t at = begin; at < end; ++at)
                    if (row[at] == '.') row[at] = ' ';
            std::string& own = rows[static_cast<std::size_t>(timed.action.chunk)];
            std::fill(own.begin() + static_cast<std::ptrdiff_t>(begin), own.begin() + static_cast<std::ptrdiff_t>(end),
                      letter_of(timed.action));
        }
        for (std::string& row : rows) {
            row.erase(row.find_last_not_of(' ') + 1);
            picture.rows += row + "\n";
        }
    }
    return picture;
}

}  // namespace cleave

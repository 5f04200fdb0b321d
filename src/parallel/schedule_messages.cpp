#include "parallel/schedule_messages.h"

#include <algorithm>

namespace cleave {
namespace {

// Where in the timeline, and when it ends: on one stage the later action ends later, and what needs another's result
// ends after it.
struct EndOfAction {
    double end;
    int stage;
    int index;
    bool operator<(const EndOfAction& other) const {
        return end != other.end ? end < other.end : stage != other.stage ? stage < other.stage : index < other.index;
    }
};

std::vector<EndOfAction> in_order_of_ends(const Timeline& timeline) {
    std::vector<EndOfAction> order;
    for (std::size_t s = 0; s < timeline.size(); ++s)
        for (std::size_t i = 0; i < timeline[s].size(); ++i)
            order.push_back({timeline[s][i].end, static_cast<int>(s), static_cast<int>(i)});
    std::sort(order.begin(), order.end());
    return order;
}

// The message of what `action` of `stage` made, at both its ends.
void append_message(PipelineSchedule& schedule, int stage, const ScheduleAction& action) {
    if (action.type == ActionType::weight_gradient) return;
    const int to = neighbour_of(schedule, schedule.virtual_stage_of(stage, action.chunk), action.type);
    if (to < 0) return;
    const PipelineSchedule::Place place = schedule.place_of(to, action.microbatch);
    if (place.stage == stage) return;
    const bool forward = action.type == ActionType::forward;
    schedule.of_stage[static_cast<std::size_t>(stage)].push_back(
        {forward ? ActionType::send_activation : ActionType::send_gradient, action.microbatch, action.chunk, false});
    schedule.of_stage[static_cast<std::size_t>(place.stage)].push_back(
        {forward ? ActionType::receive_activation : ActionType::receive_gradient, action.microbatch, place.chunk,
         false});
}

}  // namespace

void add_messages(PipelineSchedule& schedule, const ScheduleDurations& durations) {
    ScheduleDurations apart = durations;
    apart.overlapped = 0;
    const Timeline timeline = simulate(schedule, apart);
    std::vector<Schedule> ends(schedule.of_stage.size());  // what a list has after its computing: reduce, optimizer
    for (std::size_t s = 0; s < ends.size(); ++s) {
        for (const ScheduleAction& action : schedule.of_stage[s])
            if (!is_compute(action.type)) ends[s].push_back(action);
        schedule.of_stage[s].clear();
        schedule.of_stage[s].reserve(3 * timeline[s].size() + 2);
    }
    for (const EndOfAction& next : in_order_of_ends(timeline)) {
        const auto s = static_cast<std::size_t>(next.stage);
        const ScheduleAction& action = timeline[s][static_cast<std::size_t>(next.index)].action;
        schedule.of_stage[s].push_back(action);
        append_message(schedule, next.stage, action);
    }
    for (std::size_t s = 0; s < ends.size(); ++s)
        schedule.of_stage[s].insert(schedule.of_stage[s].end(), ends[s].begin(), ends[s].end());
}

void finish_step(PipelineSchedule& schedule) {
    for (Schedule& list : schedule.of_stage) {
        std::vector<bool> marked(static_cast<std::size_t>(schedule.chunks), false);
        bool reduced = false;
        bool updated = false;
        for (auto action = list.rbegin(); action != list.rend(); ++action) {
            reduced |= action->type == ActionType::reduce;
            updated |= action->type == ActionType::optimizer;
            if (!is_compute(action->type)) continue;
            const auto chunk = static_cast<std::size_t>(action->chunk);
            action->last_backward = makes_weight_gradients(action->type) && !marked[chunk];
            if (action->last_backward) marked[chunk] = true;
        }
        if (!reduced) list.push_back({ActionType::reduce, -1, 0, false});
        if (!updated) list.push_back({ActionType::optimizer, -1, 0, false});
    }
}

}  // namespace cleave

#include "parallel/schedule_waits.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave {
namespace {

class ListRun {
  public:
    ListRun(const PipelineSchedule& schedule, bool meetings)
        : schedule_(schedule), meetings_(meetings), next_(schedule.of_stage.size(), 0) {
        if (!meetings) done_.assign(cells_of(schedule), 0);
        for (int stage = schedule.stages - 1; stage >= 0; --stage) waiting_.push_back(stage);
    }

    std::optional<ScheduleProblem> run() {
        while (!waiting_.empty()) {
            const int stage = waiting_.back();
            waiting_.pop_back();
            while (const ScheduleAction* action = next_of(stage))
                if (!(meetings_ ? meet(stage, *action) : compute(stage, *action))) break;
        }
        for (int stage = 0; stage < schedule_.stages; ++stage)
            if (next_of(stage) != nullptr) return circle_from(stage);
        return std::nullopt;
    }

  private:
    static constexpr char kForwardDone = 1;
    static constexpr char kBackwardDone = 2;

    const ScheduleAction* next_of(int stage) const {
        const auto s = static_cast<std::size_t>(stage);
        return next_[s] < schedule_.of_stage[s].size() ? &schedule_.of_stage[s][next_[s]] : nullptr;
    }
    int virtual_stage(int stage, const ScheduleAction& action) const {
        return schedule_.virtual_stage_of(stage, action.chunk);
    }
    void advance(int stage) { ++next_[static_cast<std::size_t>(stage)]; }

    // The virtual stage whose result the action needs, or -1.
    int needed_by(int stage, const ScheduleAction& action) const {
        const int at = virtual_stage(stage, action);
        if (action.type == ActionType::forward) return at - 1;
        if (!passes_gradient_on(action.type)) return -1;
        return at + 1 < schedule_.virtual_stages() ? at + 1 : -1;
    }

    bool compute(int stage, const ScheduleAction& action) {
        if (is_compute(action.type)) {
            const int from = needed_by(stage, action);
            const char mark = action.type == ActionType::forward ? kForwardDone : kBackwardDone;
            if (from >= 0 && !(done_[cell_of(schedule_, from, action.microbatch)] & mark)) return false;
            if (action.type != ActionType::weight_gradient) {
                const int at = virtual_stage(stage, action);
                char& done = done_[cell_of(schedule_, at, action.microbatch)];
                done = static_cast<char>(done | mark);
                const int to = neighbour_of(schedule_, at, action.type);
                if (to >= 0) waiting_.push_back(schedule_.place_of(to, action.microbatch).stage);
            }
        }
        advance(stage);
        return true;
    }

    // The other end of a message.
    struct End {
        int stage;
        ScheduleAction action;
    };
    End other_end(int stage, const ScheduleAction& action) const {
        const auto place =
            schedule_.place_of(neighbour_of(schedule_, virtual_stage(stage, action), action.type), action.microbatch);
        const auto other = [&] {
            switch (action.type) {
                case ActionType::send_activation: return ActionType::receive_activation;
                case ActionType::receive_activation: return ActionType::send_activation;
                case ActionType::send_gradient: return ActionType::receive_gradient;
                default: return ActionType::send_gradient;
            }
        };
        return {place.stage, {other(), action.microbatch, place.chunk, false}};
    }

    bool meet(int stage, const ScheduleAction& action) {
        if (!is_message(action.type)) {
            advance(stage);
            return true;
        }
        const End other = other_end(stage, action);
        const ScheduleAction* there = next_of(other.stage);
        if (there == nullptr || !(*there == other.action)) return false;
        advance(stage);
        advance(other.stage);
        waiting_.push_back(other.stage);
        return true;
    }

    // What the stage waits for: on another stage, behind the action at which that one waits.
    End awaited(int stage) const {
        const ScheduleAction& action = *next_of(stage);
        if (meetings_) return other_end(stage, action);
        const auto place = schedule_.place_of(needed_by(stage, action), action.microbatch);
        return {place.stage, {action.type, action.microbatch, place.chunk, false}};
    }

    // From a stage that waits along what is waited for, until a stage comes again: the circle, told from its lowest
    // one.
    ScheduleProblem circle_from(int stage) const {
        std::vector<bool> seen(next_.size(), false);
        while (!seen[static_cast<std::size_t>(stage)]) {
            seen[static_cast<std::size_t>(stage)] = true;
            stage = awaited(stage).stage;
        }
        int lowest = stage;
        for (int on = awaited(stage).stage; on != stage; on = awaited(on).stage) lowest = std::min(lowest, on);
        return {lowest, next_[static_cast<std::size_t>(lowest)], *next_of(lowest), circle_text(lowest),
                meetings_ ? "messages that both stages name in one order" : "an order in which each can begin"};
    }

    std::string circle_text(int first) const {
        constexpr int kShown = 6;
        std::string text;
        int stage = first;
        int shown = 0;
        do {
            const End end = awaited(stage);
            text += fmt::format("{} waits for {} of stage {}, which stands behind ", shown == 0 ? "it" : "that",
                                text_of(end.action), end.stage);
            stage = end.stage;
            text += stage == first ? "the first" : fmt::format("{}: ", text_of(*next_of(stage)));
        } while (stage != first && ++shown < kShown);
        return text + (stage == first ? ": they wait in a circle" : "and so on in a circle");
    }

    const PipelineSchedule& schedule_;
    bool meetings_;
    std::vector<std::size_t> next_;
    std::vector<char> done_;
    std::vector<int> waiting_;
};

}  // namespace

std::optional<ScheduleProblem> find_computing_circle(const PipelineSchedule& schedule) {
    return ListRun(schedule, false).run();
}

std::optional<ScheduleProblem> find_message_circle(const PipelineSchedule& schedule) {
    return ListRun(schedule, true).run();
}

}  // namespace cleave

// Weight gradients by list scheduling.
#include <algorithm>
#include <deque>
#include <queue>

#include "base/error.h"
#include "parallel/schedule_orders.h"
#include "parallel/schedule_simulation.h"

namespace cleave {
namespace {

constexpr double kUnknown = -1;

// Stages act in the order of their clocks, so that what a stage cannot know yet begins later than its own clock.
class WeightPlacement {
  public:
    WeightPlacement(PipelineSchedule& schedule, int most_held, const ScheduleDurations& durations)
        : schedule_(schedule), most_held_(most_held), durations_(durations), stages_(schedule.of_stage.size()) {
        activations_.assign(cells_of(schedule), kUnknown);
        gradients_.assign(cells_of(schedule), kUnknown);
        for (int stage = 0; stage < schedule.stages; ++stage) turns_.push({0, stage});
    }

    void run() {
        while (!turns_.empty()) {
            const int stage = turns_.top().stage;
            turns_.pop();
            act(stage);
        }
        for (std::size_t s = 0; s < stages_.size(); ++s) {
            CLEAVE_CHECK(stages_[s].next == schedule_.of_stage[s].size(), "stage {} waits", s);
            schedule_.of_stage[s] = std::move(stages_[s].placed);
        }
    }

  private:
    struct Turn {
        double clock;
        int stage;
        bool operator<(const Turn& other) const {  // the earliest on top
            return clock != other.clock ? clock > other.clock : stage > other.stage;
        }
    };
    struct Stage {
        std::size_t next = 0;
        double clock = 0;
        int held = 0;
        bool parked = false;  // until what it waits for is known
        std::deque<ScheduleAction> weights;
        Schedule placed;
    };

    void act(int stage) {
        Stage& at = stages_[static_cast<std::size_t>(stage)];
        const Schedule& list = schedule_.of_stage[static_cast<std::size_t>(stage)];
        const bool weight = !at.weights.empty();
        if (at.next == list.size()) {
            if (weight) run_weight(stage, at);
            return;
        }
        const ScheduleAction& action = list[at.next];
        const double ready = ready_at(stage, action);
        const bool full = action.type == ActionType::forward && at.held >= most_held_;
        constexpr double kSlack = 1e-9;
        const bool fits = ready == kUnknown || at.clock + durations_.weight_gradient <= ready * (1 + kSlack);
        if (weight && (full || fits)) return run_weight(stage, at);
        if (ready == kUnknown) {
            at.parked = true;
            return;
        }
        at.clock = std::max(at.clock, ready) + durations_.of(action.type);
        at.held += action.type == ActionType::forward ? 1 : 0;
        if (action.type == ActionType::input_gradient)
            at.weights.push_back({ActionType::weight_gradient, action.microbatch, action.chunk, false});
        at.placed.push_back(action);
        ++at.next;
        hand_on(stage, action, at.clock);
        turns_.push({at.clock, stage});
    }

    void run_weight(int stage, Stage& at) {
        at.placed.push_back(at.weights.front());
        at.weights.pop_front();
        --at.held;
        at.clock += durations_.weight_gradient;
        turns_.push({at.clock, stage});
    }

    double ready_at(int stage, const ScheduleAction& action) const {
        const int at = schedule_.virtual_stage_of(stage, action.chunk);
        const std::size_t cell = cell_of(schedule_, at, action.microbatch);
        if (action.type == ActionType::forward) return at == 0 ? 0 : activations_[cell];
        return at + 1 == schedule_.virtual_stages() ? 0 : gradients_[cell];
    }

    void hand_on(int stage, const ScheduleAction& action, double end) {
        const int to = neighbour_of(schedule_, schedule_.virtual_stage_of(stage, action.chunk), action.type);
        if (to < 0) return;
        const int other = schedule_.place_of(to, action.microbatch).stage;
        auto& side = action.type == ActionType::forward ? activations_ : gradients_;
        side[cell_of(schedule_, to, action.microbatch)] = end + (other == stage ? 0 : durations_.message);
        Stage& there = stages_[static_cast<std::size_t>(other)];
        if (there.parked) turns_.push({there.clock, other});
        there.parked = false;
    }

    PipelineSchedule& schedule_;
    int most_held_;
    const ScheduleDurations& durations_;
    std::vector<Stage> stages_;
    std::vector<double> activations_, gradients_;  // when the input of a cell, or its output's gradient, is there
    std::priority_queue<Turn> turns_;
};

}  // namespace

void place_weight_gradients(PipelineSchedule& schedule, int most_held, const ScheduleDurations& durations) {
    WeightPlacement(schedule, most_held, durations).run();
}

}  // namespace cleave

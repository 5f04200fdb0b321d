#include "parallel/schedule_simulation.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace cleave {
namespace {

constexpr double kNotYet = -1;

// Times depend on the lists alone, not on the order in which stages are visited, so that each is taken as far as it
// goes and again when what it waits for is there.
class Simulation {
  public:
    Simulation(const PipelineSchedule& schedule, const ScheduleDurations& durations, const std::vector<double>& begin)
        : schedule_(schedule),
          durations_(durations),
          next_(schedule.of_stage.size(), 0),
          clock_(begin.empty() ? std::vector<double>(schedule.of_stage.size(), 0.0) : begin),
          timeline_(schedule.of_stage.size()) {
        for (const Schedule& list : schedule.of_stage)
            for (const ScheduleAction& action : list) messages_ |= is_message(action.type);
        for (Side* side : {&activations_, &gradients_}) {
            side->arrived.assign(cells_of(schedule), kNotYet);
            if (messages_) side->issued.assign(cells_of(schedule), kNotYet);
        }
        for (int stage = schedule.stages - 1; stage >= 0; --stage) waiting_.push_back(stage);
    }

    Timeline run() {
        while (!waiting_.empty()) {
            const int stage = waiting_.back();
            waiting_.pop_back();
            while (step(stage)) {
            }
        }
        for (std::size_t s = 0; s < next_.size(); ++s)
            CLEAVE_CHECK(next_[s] == schedule_.of_stage[s].size(), "stage {} waits at {}", s,
                         text_of(schedule_.of_stage[s][next_[s]]));
        return std::move(timeline_);
    }

  private:
    // By the cell that receives: when its input (or its output's gradient) is there, and when the first of the
    // message's two ends was issued.
    struct Side {
        std::vector<double> arrived;
        std::vector<double> issued;
    };

    bool step(int stage) {
        const auto s = static_cast<std::size_t>(stage);
        if (next_[s] == schedule_.of_stage[s].size()) return false;
        const ScheduleAction& action = schedule_.of_stage[s][next_[s]];
        if (runs_with_next(s)) return both(stage, action, schedule_.of_stage[s][next_[s] + 1]);
        if (is_compute(action.type)) {
            if (!compute(stage, action)) return false;
        } else if (is_message(action.type)) {
            issue(stage, action);
        }
        ++next_[s];
        return true;
    }

    bool compute(int stage, const ScheduleAction& action) {
        const double ready = ready_at(stage, action);
        if (ready == kNotYet) return false;
        run(stage, action, ready, durations_.of(action.type));
        return true;
    }

    // When what the action needs is there; kNotYet where that is not known yet.
    double ready_at(int stage, const ScheduleAction& action) const {
        const int at = schedule_.virtual_stage_of(stage, action.chunk);
        const std::size_t cell = cell_of(schedule_, at, action.microbatch);
        if (action.type == ActionType::forward && at > 0) return activations_.arrived[cell];
        if (passes_gradient_on(action.type) && at + 1 < schedule_.virtual_stages()) return gradients_.arrived[cell];
        return 0;
    }

    void run(int stage, const ScheduleAction& action, double ready, double duration) {
        const auto s = static_cast<std::size_t>(stage);
        const double start = std::max(clock_[s], ready);
        clock_[s] = start + duration;
        timeline_[s].push_back({action, start, clock_[s]});
        if (action.type != ActionType::weight_gradient)
            hand_on(stage, schedule_.virtual_stage_of(stage, action.chunk), action);
    }

    bool runs_with_next(std::size_t s) const {
        if (durations_.overlapped <= 0 || next_[s] + 1 == schedule_.of_stage[s].size()) return false;
        const ScheduleAction& action = schedule_.of_stage[s][next_[s]];
        const ScheduleAction& after = schedule_.of_stage[s][next_[s] + 1];
        return action.type == ActionType::forward && after.type == ActionType::backward && action.chunk != after.chunk;
    }
    bool both(int stage, const ScheduleAction& forward, const ScheduleAction& backward) {
        const double ready = std::min(ready_at(stage, forward), ready_at(stage, backward));
        if (ready == kNotYet) return false;
        const auto s = static_cast<std::size_t>(stage);
        const double start = std::max({clock_[s], ready_at(stage, forward), ready_at(stage, backward)});
        for (const ScheduleAction* action : {&forward, &backward}) {
            clock_[s] = start;
            run(stage, *action, start, durations_.overlapped);
        }
        next_[s] += 2;
        return true;
    }

    // What an action has made, to where no message of the lists takes it.
    void hand_on(int stage, int at, const ScheduleAction& action) {
        const int to = neighbour_of(schedule_, at, action.type);
        if (to < 0) return;
        const bool same = schedule_.place_of(to, action.microbatch).stage == stage;
        if (!same && messages_) return;
        Side& side = action.type == ActionType::forward ? activations_ : gradients_;
        arrive(side, to, action.microbatch, clock_[static_cast<std::size_t>(stage)] + (same ? 0 : durations_.message));
    }

    void issue(int stage, const ScheduleAction& action) {
        const int at = schedule_.virtual_stage_of(stage, action.chunk);
        const bool activation =
            action.type == ActionType::send_activation || action.type == ActionType::receive_activation;
        Side& side = activation ? activations_ : gradients_;
        const int to = is_send(action.type) ? neighbour_of(schedule_, at, action.type) : at;
        double& other = side.issued[cell_of(schedule_, to, action.microbatch)];
        const double now = clock_[static_cast<std::size_t>(stage)];
        if (other != kNotYet) arrive(side, to, action.microbatch, std::max(now, other) + durations_.message);
        other = now;
    }

    void arrive(Side& side, int to, int microbatch, double when) {
        side.arrived[cell_of(schedule_, to, microbatch)] = when;
        waiting_.push_back(schedule_.place_of(to, microbatch).stage);
    }

    const PipelineSchedule& schedule_;
    const ScheduleDurations& durations_;
    bool messages_ = false;
    std::vector<std::size_t> next_;
    std::vector<double> clock_;
    Side activations_, gradients_;
    std::vector<int> waiting_;
    Timeline timeline_;
};

PipelineSchedule computing_of(PipelineSchedule schedule) {
    for (Schedule& list : schedule.of_stage)
        std::erase_if(list, [](const ScheduleAction& action) { return !is_compute(action.type); });
    return schedule;
}

Bubble bubble_of(double window, double useful, int stages) {
    const double total = window * stages;
    return {(total - useful) / total, (total - useful) / useful};
}

std::vector<double> ends_of(const Timeline& timeline, std::vector<double> otherwise) {
    for (std::size_t s = 0; s < timeline.size(); ++s)
        if (!timeline[s].empty()) otherwise[s] = timeline[s].back().end;
    return otherwise;
}

// After some steps every step takes the same. (The lists are the same in each, so that the ends of a step are a
// function of the ends of the one before in which only sums and maxima occur: it settles, on a period of one step
// unless two cycles of dependencies tie.)
double steady_period(const PipelineSchedule& schedule, const ScheduleDurations& durations, const Timeline& first) {
    constexpr int kMostSteps = 64;
    std::vector<double> ends = ends_of(first, std::vector<double>(first.size(), 0.0));
    std::vector<double> half;
    for (int step = 1; step <= kMostSteps; ++step) {
        if (step == kMostSteps / 2) half = ends;
        std::vector<double> after = ends_of(simulate(schedule, durations, ends), ends);
        double least = after[0] - ends[0];
        double most = least;
        for (std::size_t s = 1; s < ends.size(); ++s) {
            least = std::min(least, after[s] - ends[s]);
            most = std::max(most, after[s] - ends[s]);
        }
        ends = std::move(after);
        if (most - least <= 1e-9 * most) return most;
    }
    constexpr int kSteps = kMostSteps - kMostSteps / 2 + 1;
    double period = 0;
    for (std::size_t s = 0; s < ends.size(); ++s) period = std::max(period, (ends[s] - half[s]) / kSteps);
    return period;
}

}  // namespace

double ScheduleDurations::of(ActionType type) const {
    switch (type) {
        case ActionType::forward: return forward;
        case ActionType::backward: return backward();
        case ActionType::input_gradient: return input_gradient;
        case ActionType::weight_gradient: return weight_gradient;
        default: return 0;
    }
}

Timeline simulate(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                  const std::vector<double>& begin) {
    if (durations.overlapped > 0) return Simulation(computing_of(schedule), durations, begin).run();
    return Simulation(schedule, durations, begin).run();
}

ScheduleFigures figures_of(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                           const Timeline& timeline) {
    ScheduleFigures figures;
    for (const auto& stage : timeline) {
        double busy = 0;
        double until = 0;  // two that run together are busy once
        for (const TimedAction& timed : stage) {
            busy += timed.end - std::max(timed.start, until);
            until = timed.end;
        }
        figures.busy.push_back(busy);
        figures.own_window.push_back(stage.empty() ? 0 : stage.back().end - stage.front().start);
        figures.useful += busy;
        if (!stage.empty()) figures.total = std::max(figures.total, stage.back().end);
    }
    figures.step = bubble_of(figures.total, figures.useful, schedule.stages);
    figures.period = steady_period(schedule, durations, timeline);
    figures.steady = bubble_of(figures.period, figures.useful, schedule.stages);
    return figures;
}

}  // namespace cleave

#include "train/schedule_measure.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "train/step_measure.h"

namespace cleave {
namespace {

constexpr double kMilliseconds = 1e3;  // a second

PipelineForm form_of(const PipelineSchedule& schedule) {
    return {schedule.stages, schedule.chunks, schedule.route, {}};
}

PipelineSchedule on_one_rank(int microbatches) {
    return {"one rank", 1, 1, microbatches, Route::round_robin, {single_stage_schedule(microbatches)}};
}

// What one stage has seen of one step; the clock's seconds.
struct StageStep {
    double begin = 0;
    double end = 0;
    double waited = 0;
    double moved = 0;  // outside of actions
    std::vector<TimedAction> actions;
    double computed() const {
        return std::accumulate(actions.begin(), actions.end(), 0.0,
                               [](double sum, const TimedAction& timed) { return sum + timed.end - timed.start; });
    }
};

// One stage.
class StageRun {
  public:
    StageRun(const PipelineSchedule& schedule, const MlpConfig& config, const Mesh& mesh, comm::Communicator& world)
        : schedule_(schedule),
          world_(world),
          engine_(mesh, world, team_size(schedule.stages)),
          model_(engine_, config, form_of(schedule)) {}

    StageStep step() {
        StageStep seen;
        model_.zero_gradients();
        PipelineRun pipeline(engine_, schedule_, model_.program(schedule_.microbatches));
        double inside = 0;  // moved by actions; minus what was moved before each that has begun
        bool computing = false;
        pipeline.measure(seen.actions, [&] {
            inside += (computing ? 1 : -1) * world_.stats().move_seconds;
            computing = !computing;
        });
        const Schedule& list = schedule_.of_stage[static_cast<std::size_t>(world_.rank())];
        seen.actions.reserve(list.size());
        world_.barrier().wait();
        const comm::Stats before = world_.stats();
        seen.begin = seconds();
        for (const ScheduleAction& action : list)
            if (is_compute(action.type) || is_message(action.type)) pipeline.perform(action);
        pipeline.finish();
        seen.end = seconds();
        const comm::Stats after = world_.stats();
        seen.waited = after.wait_seconds - before.wait_seconds;
        seen.moved = after.move_seconds - before.move_seconds - inside;
        return seen;
    }

    // Adds this stage's terms.
    void add_to(MlpGradients& gradients) {
        gradients.loss += model_.loss();
        for (const Mlp::Layer& layer : model_.layers()) {
            const Tensor& gradient = layer.matrix.gradient;
            const auto count = static_cast<std::size_t>(gradient.shape().elements());
            std::vector<double>& sum = gradients.of_layer[static_cast<std::size_t>(layer.index)];
            sum.resize(count);
            for (std::size_t i = 0; i < count; ++i)
                sum[i] += gradient.dtype() == DType::f64 ? gradient.view().as<double>()[i]
                                                         : static_cast<double>(gradient.view().as<float>()[i]);
        }
    }

    int team() const { return engine_.team(); }

  private:
    const PipelineSchedule& schedule_;
    comm::Communicator& world_;
    CpuEngine engine_;
    Mlp model_;
};

// [step][stage]
using Steps = std::vector<std::vector<StageStep>>;

struct PipelineOutcome {
    Steps steps;
    MlpGradients gradients;
    int team = 1;
};

PipelineOutcome run_pipeline(const PipelineSchedule& schedule, const MlpConfig& model, int warmup, int steps) {
    PipelineOutcome outcome;
    outcome.steps.assign(static_cast<std::size_t>(steps),
                         std::vector<StageStep>(static_cast<std::size_t>(schedule.stages)));
    outcome.gradients.of_layer.resize(static_cast<std::size_t>(model.layers));
    std::mutex mutex;
    const Mesh mesh({{"pp", schedule.stages}});
    comm::LaunchOptions launch;
    launch.ranks = schedule.stages;
    launch.transport = comm::TransportKind::inproc;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        StageRun stage(schedule, model, mesh, world);
        for (int i = 0; i < warmup; ++i) stage.step();
        for (auto& step : outcome.steps) step[static_cast<std::size_t>(world.rank())] = stage.step();
        const std::scoped_lock lock(mutex);
        outcome.team = stage.team();
        stage.add_to(outcome.gradients);
    });
    return outcome;
}

double begin_of(const std::vector<StageStep>& step) {
    double begin = step.front().begin;
    for (const StageStep& stage : step) begin = std::min(begin, stage.begin);
    return begin;
}

double duration_of(const std::vector<StageStep>& step) {
    double end = step.front().end;
    for (const StageStep& stage : step) end = std::max(end, stage.end);
    return end - begin_of(step);
}

std::vector<StageSplit> splits_of(const PipelineSchedule& schedule, const std::vector<StageStep>& step) {
    const double whole = duration_of(step);
    std::vector<StageSplit> splits;
    for (std::size_t s = 0; s < step.size(); ++s) {
        const StageStep& seen = step[s];
        const double own = seen.end - seen.begin;
        StageSplit split;
        split.compute = seen.computed() * kMilliseconds;
        split.bubble = (seen.waited + whole - own) * kMilliseconds;
        split.transfer = seen.moved * kMilliseconds;
        split.overhead = (own - seen.computed() - seen.waited - seen.moved) * kMilliseconds;
        split.actions = static_cast<int>(
            std::count_if(schedule.of_stage[s].begin(), schedule.of_stage[s].end(),
                          [](const ScheduleAction& a) { return is_compute(a.type) || is_message(a.type); }));
        splits.push_back(split);
    }
    return splits;
}

Timeline timeline_of(const std::vector<StageStep>& step) {
    const double begin = begin_of(step);
    Timeline timeline;
    for (const StageStep& seen : step) {
        timeline.emplace_back();
        for (const auto& [action, start, end] : seen.actions)
            timeline.back().push_back({action, (start - begin) * kMilliseconds, (end - begin) * kMilliseconds});
    }
    return timeline;
}

ScheduleDurations mean_durations(const Steps& steps) {
    double sum[kActionTypes] = {};
    double count[kActionTypes] = {};
    for (const auto& step : steps)
        for (const StageStep& seen : step)
            for (const auto& [action, start, end] : seen.actions) {
                sum[static_cast<std::size_t>(action.type)] += (end - start) * kMilliseconds;
                ++count[static_cast<std::size_t>(action.type)];
            }
    const auto mean = [&](ActionType type) {
        const auto t = static_cast<std::size_t>(type);
        return count[t] > 0 ? sum[t] / count[t] : 0.0;
    };
    ScheduleDurations durations;
    durations.forward = mean(ActionType::forward);
    const bool split = count[static_cast<std::size_t>(ActionType::input_gradient)] > 0;
    const double half = mean(ActionType::backward) / 2;
    durations.input_gradient = split ? mean(ActionType::input_gradient) : half;
    durations.weight_gradient = split ? mean(ActionType::weight_gradient) : half;
    return durations;
}

double largest_difference(const MlpGradients& a, const MlpGradients& b) {
    double largest = 0;
    for (std::size_t layer = 0; layer < a.of_layer.size(); ++layer) {
        const auto& x = a.of_layer[layer];
        const auto& y = b.of_layer[layer];
        CLEAVE_CHECK(x.size() == y.size(), "layer {}: {} gradients, on one rank {}", layer, x.size(), y.size());
        double difference = 0;
        double norm = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            difference += (x[i] - y[i]) * (x[i] - y[i]);
            norm += y[i] * y[i];
        }
        const double relative = std::sqrt(difference / norm);
        if (!(relative <= largest)) largest = relative;  // and what is no number
    }
    return largest;
}

}  // namespace

double ScheduleMeasurement::busy() const {
    double compute = 0;
    for (const StageSplit& stage : stages) compute += stage.compute;
    return compute / (step * static_cast<double>(stages.size()));
}

ScheduleMeasurement measure_schedule(const PipelineSchedule& schedule, const ScheduleMeasureOptions& options) {
    const MlpGradients reference = mlp_gradients(on_one_rank(schedule.microbatches), options.model);
    const PipelineOutcome outcome = run_pipeline(schedule, options.model, options.warmup, options.steps);
    ScheduleMeasurement measured;
    measured.ranks = schedule.stages;
    measured.team = outcome.team;
    measured.cores = available_cores();
    std::vector<double> overheads;
    for (const auto& step : outcome.steps) {
        measured.steps.push_back(duration_of(step) * kMilliseconds);
        for (const StageSplit& split : splits_of(schedule, step))
            overheads.push_back(split.overhead * 1e3 / std::max(split.actions, 1));
    }
    std::vector<std::size_t> order(outcome.steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return measured.steps[a] < measured.steps[b]; });
    const std::size_t middle = order[(order.size() - 1) / 2];
    measured.step = measured.steps[middle];
    measured.timeline = timeline_of(outcome.steps[middle]);
    measured.stages = splits_of(schedule, outcome.steps[middle]);
    measured.durations = mean_durations(outcome.steps);
    measured.overhead_us = median(overheads);
    measured.gradient_difference = largest_difference(outcome.gradients, reference);
    measured.loss = outcome.gradients.loss;
    return measured;
}

std::vector<ScheduleModelProblem> problems_of(const PipelineSchedule& schedule, const MlpConfig& model) {
    using Field = ScheduleModelProblem::Field;
    std::vector<ScheduleModelProblem> problems;
    if (model.layers < schedule.virtual_stages())
        problems.push_back(
            {Field::layers, fmt::format("found {}, but the pipeline has {} virtual stages; accepted: "
                                        "at least a layer for each, {} or more",
                                        model.layers, schedule.virtual_stages(), schedule.virtual_stages())});
    if (model.batch % schedule.microbatches != 0)
        problems.push_back({Field::batch, fmt::format("found {}, which {} microbatches do not divide; accepted: "
                                                      "multiples of {}",
                                                      model.batch, schedule.microbatches, schedule.microbatches)});
    return problems;
}

std::optional<double> bubble_formula(const PipelineSchedule& schedule) {
    const double p = schedule.stages;
    const double m = schedule.microbatches;
    if (schedule.name == "naive") return (p - 1) / p;
    if (schedule.name == "gpipe" || schedule.name == "1f1b") return (p - 1) / (m + p - 1);
    if (schedule.name == "interleaved" && schedule.microbatches % schedule.stages == 0)
        return (p - 1) / (schedule.chunks * m + p - 1);
    return std::nullopt;
}

MlpGradients mlp_gradients(const PipelineSchedule& schedule, const MlpConfig& model) {
    return run_pipeline(schedule, model, 0, 1).gradients;
}

}  // namespace cleave

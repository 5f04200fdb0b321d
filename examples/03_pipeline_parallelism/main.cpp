// Pipeline parallelism on a toy: 8 square matrices with a nonlinearity between them, 2 on each of 4 ranks, one step of
// the schedule 1F1B with 1, 4 and 8 microbatches. Shows, and checks, what README.md says; the exit status is 1 where a
// claim fails.
//   example_03_pipeline_parallelism [--width N]
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "model/mlp.h"
#include "parallel/schedule_kinds.h"
#include "parallel/schedule_picture.h"

namespace cleave {
namespace {

constexpr int kStages = 4;
constexpr int kLayers = 8;
constexpr std::int64_t kBatch = 32;

// What a rank's stage has done in the step.
struct Stage {
    std::vector<std::int64_t> layers;
    int held = 0;         // microbatches between their forward and their backward, the most at a time
    int activations = 0;  // messages sent
    int gradients = 0;
    std::int64_t bytes = 0;  // sent
};

struct Outcome {
    double loss = 0;
    std::vector<std::vector<double>> gradients;  // of each matrix
    std::vector<Stage> stages;
};

// A step: the rank performs its stage's list of the schedule.
Stage perform(Mlp& model, Engine& engine, const PipelineSchedule& schedule) {
    Stage stage;
    int held = 0;
    model.zero_gradients();
    PipelineRun pipeline(engine, schedule, model.program(schedule.microbatches));
    for (const ScheduleAction& action : schedule.of_stage[static_cast<std::size_t>(engine.rank())]) {
        if (!is_compute(action.type) && !is_message(action.type)) continue;  // reduction and update: not here
        pipeline.perform(action);
        if (action.type == ActionType::forward) stage.held = std::max(stage.held, ++held);
        if (action.type == ActionType::backward) --held;
        if (action.type == ActionType::send_activation) ++stage.activations;
        if (action.type == ActionType::send_gradient) ++stage.gradients;
    }
    pipeline.finish();
    return stage;
}

Outcome step(const PipelineSchedule& schedule, std::int64_t width) {
    Outcome outcome;
    outcome.gradients.resize(kLayers);
    outcome.stages.resize(static_cast<std::size_t>(schedule.stages));
    std::mutex mutex;
    const Mesh mesh({{"pp", schedule.stages}});
    const MlpConfig config{kLayers, width, kBatch, DType::f64};
    comm::LaunchOptions launch;
    launch.ranks = schedule.stages;
    launch.transport = comm::TransportKind::inproc;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(schedule.stages));
        Mlp model(engine, config, {schedule.stages, schedule.chunks, schedule.route, {}});
        Stage stage = perform(model, engine, schedule);
        stage.bytes = world.stats().sent_by(comm::Operation::send);
        const std::scoped_lock lock(mutex);
        outcome.loss += model.loss();  // the last stage's; nothing elsewhere
        for (const Mlp::Layer& layer : model.layers()) {
            const double* gradient = layer.matrix.gradient.view().as<double>();
            outcome.gradients[static_cast<std::size_t>(layer.index)].assign(gradient, gradient + width * width);
            stage.layers.push_back(layer.index);
        }
        outcome.stages[static_cast<std::size_t>(world.rank())] = std::move(stage);
    });
    return outcome;
}

double largest_difference(const Outcome& a, const Outcome& b) {
    double largest = std::abs(a.loss - b.loss);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
        CLEAVE_CHECK(a.gradients[layer].size() == b.gradients[layer].size(), "matrix {} has no gradient", layer);
        for (std::size_t i = 0; i < a.gradients[layer].size(); ++i)
            largest = std::max(largest, std::abs(a.gradients[layer][i] - b.gradients[layer][i]));
    }
    return largest;
}

double largest_gradient(const Outcome& outcome) {
    double largest = 0;
    for (const auto& gradient : outcome.gradients)
        for (const double g : gradient) largest = std::max(largest, std::abs(g));
    return largest;
}

PipelineSchedule one_forward_one_backward(int microbatches) {
    ScheduleOptions options;
    options.stages = kStages;
    options.microbatches = microbatches;
    return make_schedule(options);
}

void print_step(const PipelineSchedule& schedule, const Outcome& outcome) {
    const ScheduleDurations durations;  // a forward takes 1, a backward 2
    const SchedulePicture picture = draw_schedule(schedule, durations, simulate(schedule, durations), 0);
    fmt::print("{} microbatches of {} rows\n\n{}\n{}\n", schedule.microbatches, kBatch / schedule.microbatches,
               picture.rows, picture.legend);
    for (std::size_t s = 0; s < outcome.stages.size(); ++s) {
        const Stage& stage = outcome.stages[s];
        fmt::print("stage {}: layers {} to {}, holds activations of {}; sends", s, stage.layers.front(),
                   stage.layers.back(), stage.held);
        if (stage.activations > 0) fmt::print(" {} activations to stage {}", stage.activations, s + 1);
        if (stage.activations > 0 && stage.gradients > 0) fmt::print(" and");
        if (stage.gradients > 0) fmt::print(" {} gradients to stage {}", stage.gradients, s - 1);
        fmt::print(", {} bytes\n", stage.bytes);
    }
}

bool claim(bool holds, std::string_view text) {
    fmt::print("{}: {}\n", holds ? "holds" : "FAILS", text);
    return holds;
}

// What stage 0 and its neighbours hold and send with m microbatches: each boundary is crossed once in each direction.
bool claim_traffic(const Outcome& outcome, int microbatches, std::int64_t width) {
    bool each_once = true;
    std::vector<int> held;
    for (int s = 0; s < kStages; ++s) {
        const Stage& stage = outcome.stages[static_cast<std::size_t>(s)];
        each_once &= stage.activations == (s + 1 < kStages ? microbatches : 0);
        each_once &= stage.gradients == (s > 0 ? microbatches : 0);
        const std::int64_t tensor = kBatch / microbatches * width * static_cast<std::int64_t>(sizeof(double));
        each_once &= stage.bytes == (stage.activations + stage.gradients) * tensor;
        held.push_back(stage.held);
    }
    std::vector<int> expected;
    for (int s = 0; s < kStages; ++s) expected.push_back(std::min(kStages - s, microbatches));
    bool all = claim(each_once, fmt::format("m = {}: a microbatch crosses each boundary once forward, once back, and "
                                            "only its activations travel",
                                            microbatches));
    all &= claim(held == expected, fmt::format("m = {}: the stages hold activations of {}, {}, {}, {} microbatches",
                                               microbatches, held[0], held[1], held[2], held[3]));
    return all;
}

int show(std::int64_t width) {
    const Outcome serial = step({"serial", 1, 1, 1, Route::round_robin, {single_stage_schedule(1)}}, width);
    bool all = true;
    for (const int m : {1, 4, 8}) {
        const PipelineSchedule schedule = one_forward_one_backward(m);
        const Outcome outcome = step(schedule, width);
        if (m == 8) print_step(schedule, outcome);
        const double off = largest_difference(serial, outcome);
        all &= claim(off < 1e-9 && largest_gradient(serial) > 1e-3,
                     fmt::format("m = {}: loss and gradients equal those of one rank (within {:.1e})", m, off));
        all &= claim_traffic(outcome, m, width);
        const ScheduleDurations durations;
        const double bubble = figures_of(schedule, durations, simulate(schedule, durations)).step.of_total;
        const double formula = (kStages - 1.0) / (m + kStages - 1);
        all &= claim(
            std::abs(bubble - formula) < 1e-12,
            fmt::format("m = {}: the stages are idle {:.1f} % of the time, (p - 1) / (m + p - 1)", m, 100 * bubble));
    }
    return all ? 0 : 1;
}

}  // namespace
}  // namespace cleave

int main(int count, char** arguments) {
    try {
        std::int64_t width = 96;
        if (count == 3 && std::string(arguments[1]) == "--width") width = std::atoll(arguments[2]);
        if ((count != 1 && count != 3) || width < 1) throw cleave::UserError("expected --width N (at least 1)");
        return cleave::show(width);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 2;
    }
}

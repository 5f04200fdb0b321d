// Two ranks with one core each against one rank with both cores, on the same global batch: tokens a second of every
// layout as a ratio, and its peak memory beside the planned one. Layouts take turns, so that what else the machine does
// meets all of them; medians of the rounds.
//
//   scaling_bench [MODEL|RUN.toml] [f32|bf16] [ROUNDS]     default: gpt2-124m, 4 x 256 tokens, f32, 3
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "comm/launch.h"
#include "config/models.h"
#include "engine/cpu_engine.h"
#include "train/dry_run.h"
#include "train/job_check.h"
#include "train/proof_run.h"
#include "train/step.h"
#include "train/step_measure.h"

namespace {

using namespace cleave;

constexpr int kSteps = 2;  // timed, after one that is not, in each round

struct Case {
    const char* name;
    int ranks;
    int tp = 1;
    bool sequence = false;
    int zero = 0;
    double bound = 0;  // of the ratio, in f32
    int chunks = 1;
};

const Case kCases[] = {
    {"1 rank, 2 threads", 1},
    {"dp 2", 2, 1, false, 0, 0.90},
    {"dp 2, ZeRO 1", 2, 1, false, 1, 0.90},
    {"dp 2, ZeRO 2", 2, 1, false, 2, 0.90},
    {"dp 2, ZeRO 3", 2, 1, false, 3, 0.85},
    {"tp 2", 2, 2, false, 0, 0.90},
    {"tp 2, 4 chunks", 2, 2, false, 0, 0.90, 4},
    {"tp 2, sequence parallel", 2, 2, true, 0, 0.90},
    {"tp 2, sequence, 4 chunks", 2, 2, true, 0, 0.90, 4},
};

struct Measured {
    std::vector<double> times;
    std::int64_t peak = 0;
    std::int64_t planned = 0;
};

Job job_of(const Job& job, const Case& c) {
    Job own = job;
    own.mesh.tp = c.tp;
    own.sequence_parallel = c.sequence;
    own.zero.stage = c.zero;
    own.tensor_parallel_chunks = c.chunks;
    throw_problems(check_without_text(own, c.ranks));
    return own;
}

void measure(const Job& job, const Case& c, Measured& to) {
    const Mesh mesh = mesh_of(job, c.ranks);
    const int team = 2 / c.ranks;
    comm::LaunchOptions launch;
    launch.ranks = c.ranks;
    launch.transport = comm::TransportKind::inproc;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team);
        Transformer model = model_of(job, engine);
        model.initialize(1);
        TrainStep step(engine, model, job);
        const AxisId axis = mesh.axis("dp");
        const std::int64_t rows = microbatch_size(job, mesh.size(axis));
        const std::vector<Samples> samples{proof_samples(job, 0, {mesh.coordinate(world.rank(), axis) * rows, rows})};
        engine.reset_peaks();
        step.run(samples, 1, 1e-4);
        for (int i = 0; i < kSteps; ++i) {
            world.barrier().wait();
            const double begin = seconds();
            step.run(samples, i + 2, 1e-4);
            world.barrier().wait();
            if (world.rank() == 0) to.times.push_back(seconds() - begin);
        }
        if (world.rank() == 0) to.peak = engine.ledger().peak();
    });
    to.planned = rank_plan(job, mesh, 0, comm::TransportKind::inproc, team).peak_bytes;
}

int run(int argc, char** argv) {
    std::vector<std::string> sets{"train.batch=4", "model.context=256"};
    if (argc > 2) sets.push_back(fmt::format("train.dtype={}", argv[2]));
    const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
    const RunFile file = read_model_or_run_file(argc > 1 ? argv[1] : "gpt2-124m", sets);
    throw_problems(file.problems);
    const std::size_t count = std::size(kCases);
    std::vector<Measured> measured(count);
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < count; ++i) measure(job_of(file.job, kCases[i]), kCases[i], measured[i]);
    const std::int64_t tokens = file.job.train.batch * file.job.model.context;
    fmt::print("{} tokens a step in {}; medians of {} steps\n", tokens, name_of(file.job.train.dtype), rounds * kSteps);
    fmt::print("{:<26} {:>8} {:>10} {:>8} {:>8} {:>14}\n", "layout", "step s", "tokens/s", "ratio", "asked",
               "peak bytes");
    const double one = median(measured[0].times);
    bool holds = true;
    for (std::size_t i = 0; i < count; ++i) {
        const Measured& m = measured[i];
        const double step = median(m.times);
        const bool judged = file.job.train.dtype == DType::f32 && kCases[i].bound > 0;
        const bool fast = !judged || one / step >= kCases[i].bound;
        holds &= fast && m.peak == m.planned;
        fmt::print("{:<26} {:>8.3f} {:>10.1f} {:>8.3f} {:>8} {:>14}{}{}\n", kCases[i].name, step,
                   static_cast<double>(tokens) / step, one / step, judged ? fmt::format("{:.2f}", kCases[i].bound) : "",
                   m.peak, m.peak == m.planned ? " as planned" : fmt::format(", PLANNED {}", m.planned),
                   fast ? "" : "  BELOW");
    }
    return holds ? kExitOk : kExitNo;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return kExitUserError;
    }
}

// Two ranks with one core each against one rank with both cores, on the same global batch: tokens a second of every
// layout as a ratio, and its peak memory beside the planned one. Layouts take turns, so that what else the machine does
// meets all of them; medians of the rounds.
//
//   scaling_bench [MODEL|RUN.toml] [f32|bf16] [ROUNDS] [layouts|pipelines|all]     default: gpt2-124m, f32, 3, all
//
// Layouts share a batch of 4 x 256 tokens; pipelines one of eight microbatches of 256, which one rank takes one by one
// as well (and once all together, as its best). A pipeline is asked for 0.92 of what its bubble leaves.
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
    const char* schedule = nullptr;  // of a pipeline of all ranks
    int microbatches = 1;
};

constexpr int kMicrobatches = 8;
constexpr double kOfBubble = 0.92;

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

// The bubble of two stages is 1 / (m + 1) of the total where a stage is as long as the other.
const Case kPipelines[] = {
    {.name = "1 rank, 8 microbatches", .ranks = 1, .microbatches = kMicrobatches},
    {.name = "1 rank, all together", .ranks = 1},
    {.name = "pp 2, 1f1b",
     .ranks = 2,
     .bound = kOfBubble * (1 - 1.0 / (kMicrobatches + 1)),
     .schedule = "1f1b",
     .microbatches = kMicrobatches},
    {.name = "pp 2, gpipe", .ranks = 2, .schedule = "gpipe", .microbatches = kMicrobatches},
    {.name = "pp 2, interleaved", .ranks = 2, .schedule = "interleaved", .microbatches = kMicrobatches},
    {.name = "pp 2, zb-h1", .ranks = 2, .schedule = "zb-h1", .microbatches = kMicrobatches},
    {.name = "pp 2, zbv", .ranks = 2, .schedule = "zbv", .microbatches = kMicrobatches},
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
    own.train.microbatch = c.microbatches == 1 ? 0 : job.train.batch / c.microbatches;
    if (c.schedule != nullptr) {
        own.mesh.pp = c.ranks;
        own.pipeline.schedule = c.schedule;
    }
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
        const int dp = mesh.size(axis);
        const std::int64_t rows = microbatch_size(job, dp);
        std::vector<Samples> samples;
        for (std::int64_t m = 0; m < c.microbatches; ++m)
            samples.push_back(proof_samples(
                job, 0, microbatch_rows(job.train.batch, dp, mesh.coordinate(world.rank(), axis), rows, m)));
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

// False where a ratio is below what is asked, or memory not as planned.
bool run_group(const char* model, const std::string& dtype, int rounds, std::span<const Case> cases,
               std::int64_t sequences) {
    const RunFile file = read_model_or_run_file(
        model, {fmt::format("train.batch={}", sequences), "model.context=256", "train.dtype=" + dtype});
    throw_problems(file.problems);
    std::vector<Measured> measured(cases.size());
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < cases.size(); ++i) {
            fmt::print(stderr, "round {} of {}: {}\n", round + 1, rounds, cases[i].name);
            measure(job_of(file.job, cases[i]), cases[i], measured[i]);
        }
    const std::int64_t tokens = file.job.train.batch * file.job.model.context;
    fmt::print("{} tokens a step in {}; medians of {} steps\n", tokens, dtype, rounds * kSteps);
    fmt::print("{:<26} {:>8} {:>10} {:>8} {:>8} {:>14}\n", "layout", "step s", "tokens/s", "ratio", "asked",
               "peak bytes");
    const double one = median(measured[0].times);
    bool holds = true;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const Measured& m = measured[i];
        const double step = median(m.times);
        const bool judged = dtype == "f32" && cases[i].bound > 0;
        const bool fast = !judged || one / step >= cases[i].bound;
        holds &= fast && m.peak == m.planned;
        fmt::print("{:<26} {:>8.3f} {:>10.1f} {:>8.3f} {:>8} {:>14}{}{}\n", cases[i].name, step,
                   static_cast<double>(tokens) / step, one / step, judged ? fmt::format("{:.3f}", cases[i].bound) : "",
                   m.peak, m.peak == m.planned ? " as planned" : fmt::format(", PLANNED {}", m.planned),
                   fast ? "" : "  BELOW");
    }
    return holds;
}

int run(int argc, char** argv) {
    const char* model = argc > 1 ? argv[1] : "gpt2-124m";
    const std::string dtype = argc > 2 ? argv[2] : "f32";
    const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
    const std::string groups = argc > 4 ? argv[4] : "all";
    if (groups != "all" && groups != "layouts" && groups != "pipelines")
        throw UserError("found '{}'; accepted: layouts, pipelines, all", groups);
    bool holds = true;
    if (groups != "pipelines") holds &= run_group(model, dtype, rounds, kCases, 4);
    if (groups != "layouts") holds &= run_group(model, dtype, rounds, kPipelines, kMicrobatches);
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

#include "train/proof_run.h"

#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "train/job_layout.h"
#include "train/schedule.h"
#include "train/step.h"

namespace cleave {

namespace {

constexpr double kMostMasked = 0.6;

std::vector<double> doubles(const Tensor& tensor) {
    std::vector<double> values(static_cast<std::size_t>(tensor.view().elements()));
    dispatch_float(tensor.dtype(), [&]<class T>(T) {
        const T* from = tensor.view().as<T>();
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<double>(static_cast<accumulator_t<T>>(from[i]));
    });
    return values;
}

// One rank's part; `run` is the first rank's alone.
void run_rank(const Job& job, const Mesh& mesh, comm::Communicator& world, int team, int steps, ProofRun* run) {
    CpuEngine engine(mesh, world, team);
    Transformer model = model_of(job, engine);
    model.initialize(static_cast<std::uint64_t>(job.train.seed));
    TrainStep train(engine, model, job);
    const int dp = mesh.size(mesh.axis("dp"));
    const int dp_rank = mesh.coordinate(world.rank(), mesh.axis("dp"));
    const auto keep = [&](ParameterValues ProofRun::*values) {
        return [run, values](const Parameter& parameter, const Tensor& whole) {
            if (run != nullptr) (run->*values)[parameter.name] = doubles(whole);
        };
    };
    for (int step = 0; step < steps; ++step) {
        const std::int64_t batch = global_batch(job.train, step);
        std::vector<Samples> microbatches;
        for (std::int64_t m = 0; m < accumulation(job, dp, batch); ++m)
            microbatches.push_back(
                proof_samples(job, step, microbatch_rows(batch, dp, dp_rank, microbatch_size(job, dp), m)));
        const StepResult result = train.run(microbatches, step + 1, learning_rate(job.train, step));
        if (step == 0) model.store().buckets().visit(train.gradients().reduced(), keep(&ProofRun::gradients));
        if (run == nullptr) continue;
        run->losses.push_back(result.loss);
        run->norms.push_back(result.gradient_norm);
    }
    model.store().buckets().visit(model.store().masters(), keep(&ProofRun::parameters));
    if (run != nullptr)
        for (const Parameter* parameter : model.parameters()) run->names.push_back(parameter->name);
}

}  // namespace

Samples proof_samples(const Job& job, std::int64_t step, RowRange rows) {
    const RandomStream random(77, "proof", static_cast<std::uint64_t>(step));
    const std::int64_t context = job.model.context;
    const auto words = static_cast<std::uint64_t>(job.model.vocabulary);
    Samples samples;
    samples.first_row = rows.first;
    for (std::int64_t i = rows.first * context; i < (rows.first + rows.count) * context; ++i) {
        const std::int64_t row = i / context;
        const auto draw = [&](std::uint64_t which) { return 4 * static_cast<std::uint64_t>(i) + which; };
        if (job.data.separate_documents) {
            const bool begins = i % context == 0 || random.uniform(draw(3)) < 0.2;
            samples.first_visible.push_back(begins ? static_cast<std::int32_t>(i % context)
                                                   : samples.first_visible.back());
        }
        samples.tokens.push_back(static_cast<std::int32_t>(random.below(draw(0), words)));
        const double masked = kMostMasked * static_cast<double>(row) / static_cast<double>(job.train.batch);
        samples.labels.push_back(random.uniform(draw(1)) < masked
                                     ? static_cast<std::int32_t>(kIgnoredLabel)
                                     : static_cast<std::int32_t>(random.below(draw(2), words)));
    }
    return samples;
}

ProofRun proof_run(const Job& job, int ranks, int team, int steps) {
    const Mesh mesh = mesh_of(job, ranks);
    ProofRun run;
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    launch.transport = comm::TransportKind::inproc;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        run_rank(job, mesh, world, team, steps, world.rank() == 0 ? &run : nullptr);
    });
    return run;
}

}  // namespace cleave

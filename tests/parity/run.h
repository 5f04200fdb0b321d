// Runs one job on a given number of ranks and brings home what there is to compare: loss, norm, every raw gradient of
// the first step, every parameter after some steps. Samples are those of a global batch that does not depend on the
// layout.
#pragma once

#include <mutex>

#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "measure.h"
#include "support/variants.h"
#include "train/schedule.h"
#include "train/step.h"

namespace cleave::test {

struct Outcome {
    std::vector<double> losses;
    std::vector<double> norms;
    std::vector<double> z_losses;
    std::vector<Underflow> underflows;         // where they are counted
    Values gradients;                          // of the first step, reduced, on rank 0
    Values parameters;                         // after all steps, on rank 0
    std::vector<std::vector<std::byte>> bits;  // every rank's parameters, byte for byte
    std::vector<std::vector<Event>> traces;    // every rank's, where asked for
};

struct Layout1D {
    int dp = 1;
    int accumulation = 1;
};

struct Options {
    ModelConfig model;
    Job job;
    int steps = 1;
    Layout1D layout;
    bool trace = false;
    int team = 1;
};

inline std::vector<double> doubles(const Tensor& tensor) {
    std::vector<double> values(static_cast<std::size_t>(tensor.view().elements()));
    dispatch_float(tensor.dtype(), [&]<class T>(T) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            if constexpr (std::is_same_v<T, bf16>)
                values[i] = static_cast<double>(static_cast<float>(tensor.view().as<T>()[i]));
            else
                values[i] = static_cast<double>(tensor.view().as<T>()[i]);
        }
    });
    return values;
}

// Rows [first, first + rows) of the global batch of `step`; about a fifth of the labels are masked, unequally over the
// rows. With `documents` a fifth of the tokens begin one.
inline Samples global_rows(const ModelConfig& model, int step, std::int64_t first, std::int64_t rows, bool documents) {
    const RandomStream random(77, "parity", static_cast<std::uint64_t>(step));
    Samples samples;
    samples.first_row = first;
    for (std::int64_t i = first * model.context; i < (first + rows) * model.context; ++i) {
        if (documents) {
            const std::int64_t t = i % model.context;
            const bool begins =
                t == 0 || random.uniform((std::uint64_t{1} << 40) + static_cast<std::uint64_t>(i)) < 0.2;
            samples.first_visible.push_back(begins ? static_cast<std::int32_t>(t) : samples.first_visible.back());
        }
        const auto n = static_cast<std::uint64_t>(model.vocabulary);
        const auto at = static_cast<std::uint64_t>(3 * i);
        samples.tokens.push_back(static_cast<std::int32_t>(random.below(at, n)));
        const bool masked = random.uniform(at + 1) < 0.4 * static_cast<double>(i / model.context % 3) / 2;
        samples.labels.push_back(masked ? static_cast<std::int32_t>(kIgnoredLabel)
                                        : static_cast<std::int32_t>(random.below(at + 2, n)));
    }
    return samples;
}

inline std::vector<Samples> own_microbatches(const Options& options, int step, int rank) {
    const std::int64_t batch = options.job.train.batch;
    const std::int64_t per_rank = batch / options.layout.dp;
    const std::int64_t rows = per_rank / options.layout.accumulation;
    std::vector<Samples> microbatches;
    for (int m = 0; m < options.layout.accumulation; ++m)
        microbatches.push_back(
            global_rows(options.model, step, rank * per_rank + m * rows, rows, options.job.data.separate_documents));
    return microbatches;
}

inline Outcome run(const Options& options) {
    Mesh mesh({{"pp", 1}, {"dp", options.layout.dp}, {"cp", 1}, {"tp", 1}});
    split_for_zero(mesh, options.job.zero.group);
    Outcome outcome;
    outcome.bits.resize(static_cast<std::size_t>(options.layout.dp));
    outcome.traces.resize(static_cast<std::size_t>(options.layout.dp));
    std::mutex mutex;
    comm::LaunchOptions launch;
    launch.ranks = options.layout.dp;
    launch.timeout = std::chrono::seconds(60);
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, options.team);
        Transformer model(engine, options.model, data_parallel_layouts(mesh), options.job.train.dtype,
                          zero_options(options.job));
        model.initialize(static_cast<std::uint64_t>(options.job.train.seed));
        TrainStep train(engine, model, options.job);
        const bool first_rank = world.rank() == 0;
        if (options.trace) engine.trace().start();
        for (int step = 0; step < options.steps; ++step) {
            const auto microbatches = own_microbatches(options, step, world.rank());
            const StepResult result = train.run(microbatches, step + 1, learning_rate(options.job.train, step));
            if (step == 0)
                model.store().buckets().visit(train.gradients().reduced(), [&](const Parameter& p, const Tensor& g) {
                    if (first_rank) outcome.gradients[p.name] = doubles(g);
                });
            if (!first_rank) continue;
            outcome.losses.push_back(result.loss);
            outcome.norms.push_back(result.gradient_norm);
            outcome.z_losses.push_back(result.z_loss);
            if (result.underflow) outcome.underflows.push_back(*result.underflow);
        }
        if (options.trace) engine.trace().stop();
        std::map<std::string, std::vector<std::byte>> bytes;
        model.store().buckets().visit(model.store().masters(), [&](const Parameter& p, const Tensor& master) {
            const auto* data = static_cast<const std::byte*>(master.view().data);
            bytes[p.name].assign(data, data + master.view().bytes());
            if (first_rank) outcome.parameters[p.name] = doubles(master);
        });
        const std::lock_guard lock(mutex);
        auto& bits = outcome.bits[static_cast<std::size_t>(world.rank())];
        for (const auto& [name, own] : bytes) bits.insert(bits.end(), own.begin(), own.end());
        outcome.traces[static_cast<std::size_t>(world.rank())] = engine.trace().events();
    });
    return outcome;
}

inline Options small_options(Variant variant = Variant::gpt2) {
    Options options;
    ModelConfig& m = options.model;
    m.layers = 2;
    m.heads = 4;
    m.width = 16;
    m.mlp_width = 40;
    m.context = 8;
    make_variant(m, variant);
    m.vocabulary = 29;
    options.job.train.batch = 144;  // divisible by dp 1, 2, 3, 4, 6, 8 times accumulation 1, 2, 3
    options.job.train.dtype = DType::f64;
    options.job.train.warmup_steps = 2;
    options.job.train.steps = 20;
    options.job.train.lr = 1e-2;
    options.job.train.clip = 0.5;
    options.job.train.bucket_bytes = 1 << 12;
    return options;
}

}  // namespace cleave::test

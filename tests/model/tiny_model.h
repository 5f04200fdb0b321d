// Test helpers: tiny models on one rank in f64.
#pragma once

#include <functional>
#include <vector>

#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "kernels/elementwise.h"
#include "model/transformer.h"
#include "parallel/data_parallel.h"
#include "parallel/gradient_buckets.h"
#include "support/variants.h"

namespace cleave::test {

inline ModelConfig tiny(Family family) {
    ModelConfig config;
    config.family = family;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = family == Family::llama ? 2 : 0;
    config.width = 16;
    config.mlp_width = 24;
    config.context = 6;
    config.vocabulary = 13;
    config.initial_deviation = 0.3;  // far from linear: errors show
    return config;
}

inline ModelConfig tiny(Variant variant) {
    ModelConfig config = tiny(Family::gpt2);
    make_variant(config, variant);
    return config;
}

inline const Mesh& one_rank() {
    static const Mesh mesh({{"dp", 1}});
    return mesh;
}

inline void on_one_rank(const std::function<void(CpuEngine&)>& body) {
    comm::run_ranks({}, [&](comm::Communicator& world) {
        CpuEngine engine(one_rank(), world, 1);
        body(engine);
    });
}

struct Batch {
    Tensor tokens;
    Tensor labels;
};

inline Batch random_batch(Engine& engine, const ModelConfig& config, std::int64_t rows) {
    const Shape shape{rows, config.context};
    const Layout layout = data_parallel_layouts(engine.mesh()).tokens;
    const RandomStream random(5, "tokens");
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
        const auto n = static_cast<std::uint64_t>(config.vocabulary);
        tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i), n)));
        labels.push_back(i % 5 == 3
                             ? static_cast<std::int32_t>(kIgnoredLabel)
                             : static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i + 1), n)));
    }
    Batch batch{engine.alloc("tokens", shape, layout, DType::i32, MemoryKind::activations),
                engine.alloc("labels", shape, layout, DType::i32, MemoryKind::activations)};
    engine.write(batch.tokens, std::as_bytes(std::span(tokens)));
    engine.write(batch.labels, std::as_bytes(std::span(labels)));
    return batch;
}

inline std::span<double> elements(const Tensor& tensor) {
    return {tensor.view().as<double>(), static_cast<std::size_t>(tensor.view().elements())};
}

// Gains and biases away from 1 and 0, so that every term of their gradients counts.
inline void perturb(Transformer& model) {
    for (Parameter* parameter : model.parameters()) {
        const RandomStream random(9, parameter->name);
        std::uint64_t i = 0;
        for (double& value : elements(parameter->value)) value += 0.1 * random.normal(i++);
    }
}

}  // namespace cleave::test

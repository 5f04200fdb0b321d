#include "model/mlp.h"

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "engine/functions.h"
#include "kernels/elementwise.h"

namespace cleave {

Mlp::Mlp(Engine& engine, const MlpConfig& config, const PipelineForm& form) : engine_(engine), config_(config) {
    CLEAVE_CHECK(form.virtual_stages() <= config.layers, "{} layers on {} virtual stages", config.layers,
                 form.virtual_stages());
    const std::vector<ModelPart> parts = model_parts(form, config.layers);
    const int stage = stage_of_pipeline(engine.mesh(), engine.rank());
    for (int c = 0; c < form.chunks; ++c) {
        const ModelPart& part = parts[static_cast<std::size_t>(form.virtual_stage_of(stage, c))];
        chunks_.push_back({part, layers_.size()});
        for (std::int64_t layer = part.begin; layer < part.end; ++layer) layers_.push_back({layer, make_matrix(layer)});
    }
    make_batch();
}

Parameter Mlp::make_matrix(std::int64_t layer) const {
    const Shape shape{config_.width, config_.width};
    Parameter matrix;
    matrix.name = fmt::format("matrix {}", layer);
    matrix.shape = shape;
    matrix.value = engine_.alloc(matrix.name, shape, {}, config_.dtype, MemoryKind::parameters);
    const double deviation = 1 / std::sqrt(static_cast<double>(config_.width));
    engine_.launch(kernels::FillNormal(config_.seed, matrix.name, deviation), {matrix.value}, {matrix.value});
    matrix.gradient = engine_.alloc(matrix.name, shape, {}, accumulator_of(config_.dtype), MemoryKind::gradients);
    return matrix;
}

void Mlp::make_batch() {
    for (const Chunk& chunk : chunks_) {
        if (chunk.part.embedding && !inputs_) {
            inputs_ =
                engine_.alloc("inputs", {config_.batch, config_.width}, {}, config_.dtype, MemoryKind::activations);
            engine_.launch(kernels::FillNormal(config_.seed, "inputs", 1), {inputs_}, {inputs_});
        }
        if (chunk.part.head && !labels_) {
            const RandomStream random(config_.seed, "labels");
            std::vector<std::int32_t> labels;
            for (std::int64_t row = 0; row < config_.batch; ++row)
                labels.push_back(static_cast<std::int32_t>(
                    random.below(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(config_.width))));
            labels_ = engine_.alloc("labels", {config_.batch}, {}, DType::i32, MemoryKind::activations);
            engine_.write(labels_, std::as_bytes(std::span(labels)));
        }
    }
}

void Mlp::zero_gradients() {
    losses_.clear();
    for (Layer& layer : layers_) engine_.launch(kernels::Fill(0), {layer.matrix.gradient}, {layer.matrix.gradient});
}

double Mlp::loss() const {
    double sum = 0;
    for (const Tensor& loss : losses_) sum += engine_.read(loss, 0);
    return sum;
}

Tensor Mlp::forward(Tape& tape, const Chunk& chunk, const Range& rows, const Tensor& input) {
    Tensor x = chunk.part.embedding ? engine_.local_rows(inputs_, rows) : input;
    const auto count = static_cast<std::size_t>(chunk.part.end - chunk.part.begin);
    for (std::size_t i = 0; i < count; ++i) {
        Layer& layer = layers_[chunk.first_layer + i];
        x = linear(tape, x, layer.matrix, nullptr, WeightForm::out_in, 1, "product");
        if (layer.index + 1 < config_.layers) x = gelu(tape, x, "gelu");
    }
    if (!chunk.part.head) return x;
    losses_.push_back(
        cross_entropy(tape, x, engine_.local_rows(labels_, rows), 1.0 / static_cast<double>(config_.batch), "loss"));
    return losses_.back();
}

ChunkProgram Mlp::program(int microbatches) {
    CLEAVE_CHECK(config_.batch % microbatches == 0, "{} rows in {} microbatches", config_.batch, microbatches);
    const std::int64_t rows = config_.batch / microbatches;
    ChunkProgram program;
    program.make_tape = [this](int) { return std::make_unique<Tape>(engine_); };
    program.forward = [this, rows](Tape& tape, int chunk, int microbatch, const Tensor& input) {
        return forward(tape, chunks_[static_cast<std::size_t>(chunk)], {microbatch * rows, (microbatch + 1) * rows},
                       input);
    };
    program.alloc = [this, rows] {
        return engine_.alloc("stream", {rows, config_.width}, {}, config_.dtype, MemoryKind::activations);
    };
    program.hooks = [](bool) { return Tape::GradientHooks{}; };
    return program;
}

}  // namespace cleave

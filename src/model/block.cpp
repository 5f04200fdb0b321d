#include "model/block.h"

#include <cmath>

namespace cleave {

Block::Block(const ModelConfig& config, std::string prefix)
    : prefix_(std::move(prefix)),
      epsilon_(config.norm_epsilon),
      window_(config.window),
      probability_dropout_{config.attention_dropout, prefix_ + "attention probabilities"},
      dropout_{config.dropout, config.keep_dropout_masks} {}

Tensor Block::forward(Tape& tape, const Tensor& x, const SequenceContext& context) {
    const Tensor mixed = dropout(tape, attention_branch(tape, x, context), dropout_, prefix_ + "attention dropout");
    const Tensor after_attention = add(tape, x, mixed, "residual");
    const Tensor added = dropout(tape, mlp_branch(tape, after_attention), dropout_, prefix_ + "mlp dropout");
    return add(tape, after_attention, added, "residual");
}

Parameter make_weight(std::string name, const Shape& shape, const ModelLayouts& layouts, double deviation) {
    return {.name = std::move(name),
            .shape = shape,
            .layout = layouts.parameters,
            .decays = true,
            .initial_mean = 0,
            .initial_deviation = deviation,
            .value = {},
            .master = {},
            .gradient = {}};
}

Parameter make_gain(std::string name, std::int64_t width, const ModelLayouts& layouts) {
    return {.name = std::move(name),
            .shape = {width},
            .layout = layouts.parameters,
            .decays = false,
            .initial_mean = 1,
            .initial_deviation = 0,
            .value = {},
            .master = {},
            .gradient = {}};
}

Parameter make_bias(std::string name, const Shape& shape, const ModelLayouts& layouts) {
    return {.name = std::move(name),
            .shape = shape,
            .layout = layouts.parameters,
            .decays = false,
            .initial_mean = 0,
            .initial_deviation = 0,
            .value = {},
            .master = {},
            .gradient = {}};
}

double residual_deviation(const ModelConfig& config) {
    return config.initial_deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

}  // namespace cleave

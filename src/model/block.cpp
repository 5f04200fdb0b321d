#include "model/block.h"

#include <cmath>

namespace cleave {

Block::Block(const ModelConfig& config, const ModelLayouts& layouts, std::string prefix)
    : layouts_(layouts),
      prefix_(std::move(prefix)),
      epsilon_(config.norm_epsilon),
      window_(config.window),
      attention_{config.attention,
                 {config.attention_dropout, prefix_ + "attention probabilities", config.keep_dropout_masks}},
      dropout_{config.dropout, config.keep_dropout_masks} {}

Tensor Block::forward(Tape& tape, const Tensor& x, const SequenceContext& context) {
    const auto add_branch = [&](const Tensor& stream, const Tensor& branch, const char* place) {
        return add(tape, stream, dropout(tape, branch, dropout_, prefix_ + place), "residual");
    };
    const Tensor after_attention = add_branch(x, attention_branch(tape, x, context), "attention dropout");
    return add_branch(after_attention, mlp_branch(tape, after_attention), "mlp dropout");
}

Tensor Block::out_of_products(Tape& tape, const Tensor& x, Parameter& weight, Parameter* bias, WeightForm form,
                              int in_dims, std::string_view name) const {
    return linear_to(tape, x, weight, bias, form, in_dims, name, layouts_.stream, layouts_.chunks);
}

Arriving into_products(Tape& tape, const Tensor& normed, const ModelLayouts& layouts) {
    return transition_in_chunks(tape, normed, layouts.products, layouts.chunks, layouts.gather_again);
}

Parameter make_weight(std::string name, const Shape& shape, const Layout& layout, double deviation) {
    return {.name = std::move(name),
            .shape = shape,
            .layout = layout,
            .decays = true,
            .initial_mean = 0,
            .initial_deviation = deviation,
            .value = {},
            .master = {},
            .gradient = {}};
}

Parameter make_gain(std::string name, std::int64_t width, const Layout& layout) {
    return {.name = std::move(name),
            .shape = {width},
            .layout = layout,
            .decays = false,
            .initial_mean = 1,
            .initial_deviation = 0,
            .value = {},
            .master = {},
            .gradient = {}};
}

Parameter make_bias(std::string name, const Shape& shape, const Layout& layout) {
    return {.name = std::move(name),
            .shape = shape,
            .layout = layout,
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

#include "model/block.h"

#include <cmath>

namespace cleave {

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

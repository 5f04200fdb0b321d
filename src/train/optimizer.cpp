#include "train/optimizer.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"

namespace cleave {

namespace {

std::int64_t blocks_of(const Parameter& parameter) {
    return (parameter.shape.elements() + kernels::kNormBlock - 1) / kernels::kNormBlock;
}

}  // namespace

Optimizer::Optimizer(Engine& engine, std::span<Parameter* const> parameters, const Job& job)
    : engine_(engine), train_(job.train) {
    std::int64_t blocks = 0;
    for (Parameter* parameter : parameters) {
        blocks += blocks_of(*parameter);
        State state{parameter, {}};
        if (job.train.optimizer == OptimizerKind::adamw) {
            for (const char* name : {"exp_avg", "exp_avg_sq"}) {
                Tensor tensor = engine.alloc(parameter->name + " " + name, parameter->shape, parameter->layout,
                                             parameter->master.dtype(), MemoryKind::optimizer);
                engine.launch(kernels::Fill{0.0}, {tensor}, {tensor});
                state.tensors.emplace_back(name, std::move(tensor));
            }
        }
        states_.push_back(std::move(state));
    }
    partials_ = engine.alloc("norm partials", {blocks}, parameters.front()->layout, DType::f64, MemoryKind::optimizer);
}

double Optimizer::norm(const GradientBuckets& gradients) {
    std::int64_t offset = 0;
    for (const State& state : states_) {
        const std::int64_t blocks = blocks_of(*state.parameter);
        const Tensor& gradient = gradients.reduced(*state.parameter);
        const Tensor part = engine_.slice_of(partials_, offset, "norm partial", {blocks}, gradient.layout());
        engine_.launch(kernels::SquaredNorm{}, {gradient}, {part});
        offset += blocks;
    }
    const Tensor sum = engine_.create(kernels::ColumnSum{0, false}, {partials_},
                                      {"squared norm", {}, DType::f64, MemoryKind::optimizer});
    return std::sqrt(engine_.read(sum, 1.0));
}

double Optimizer::update(const GradientBuckets& gradients, std::int64_t step, double learning_rate) {
    const double total = norm(gradients);
    if (!std::isfinite(total)) return total;
    const double clip = train_.clip;
    const double scale = clip > 0 && total > clip ? clip / (total + 1e-6) : 1.0;
    for (const State& state : states_)
        update_parameter(state, gradients.reduced(*state.parameter), step, learning_rate, scale);
    return total;
}

void Optimizer::update_parameter(const State& state, const Tensor& gradient, std::int64_t step, double learning_rate,
                                 double gradient_scale) {
    Parameter& p = *state.parameter;
    const bool low = p.value.dtype() != p.master.dtype();  // the kernel also writes the bf16 value
    const double decay = p.decays ? train_.weight_decay : 0.0;
    if (train_.optimizer == OptimizerKind::adamw) {
        const kernels::AdamW kernel{learning_rate, train_.beta1,   train_.beta2, train_.epsilon,
                                    decay,         gradient_scale, step,         low};
        const Tensor& m = state.tensors[0].second;
        const Tensor& v = state.tensors[1].second;
        if (low)
            engine_.launch(kernel, {gradient}, {p.master, m, v, p.value});
        else
            engine_.launch(kernel, {gradient}, {p.master, m, v});
    } else {
        const kernels::Sgd kernel{learning_rate, decay, gradient_scale, low};
        if (low)
            engine_.launch(kernel, {gradient}, {p.master, p.value});
        else
            engine_.launch(kernel, {gradient}, {p.master});
    }
}

}  // namespace cleave

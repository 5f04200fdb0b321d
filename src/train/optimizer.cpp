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
    if (!train_.count_underflow) return;
    host_counts_.resize(states_.size() * kernels::kUpdateCounts);
    counts_ = engine.alloc("update counts", {static_cast<std::int64_t>(host_counts_.size())},
                           parameters.front()->layout, DType::f64, MemoryKind::optimizer);
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
    for (std::size_t i = 0; i < states_.size(); ++i)
        update_parameter(i, gradients.reduced(*states_[i].parameter), step, learning_rate, scale);
    if (counts_) read_counts();
    return total;
}

void Optimizer::update_parameter(std::size_t index, const Tensor& gradient, std::int64_t step, double learning_rate,
                                 double gradient_scale) {
    const State& state = states_[index];
    Parameter& p = *state.parameter;
    const bool low = p.value.dtype() != p.master.dtype();  // the kernel also writes the bf16 value
    const bool count = static_cast<bool>(counts_);
    const double decay = p.decays ? train_.weight_decay : 0.0;
    std::vector<Tensor> outputs{p.master};
    for (const auto& [name, tensor] : state.tensors) outputs.push_back(tensor);
    if (low) outputs.push_back(p.value);
    if (count)
        outputs.push_back(engine_.slice_of(counts_, static_cast<std::int64_t>(index) * kernels::kUpdateCounts,
                                           "update counts", {kernels::kUpdateCounts}, gradient.layout()));
    if (train_.optimizer == OptimizerKind::adamw)
        engine_.launch(kernels::AdamW{learning_rate, train_.beta1, train_.beta2, train_.epsilon, decay, gradient_scale,
                                      step, low, count},
                       std::span(&gradient, 1), outputs);
    else
        engine_.launch(kernels::Sgd{learning_rate, decay, gradient_scale, low, count}, std::span(&gradient, 1),
                       outputs);
}

void Optimizer::read_counts() {
    const Tensor total = engine_.transition(counts_, summed(counts_.layout()));
    engine_.read_bytes(total, std::as_writable_bytes(std::span(host_counts_)));
    std::int64_t sums[kernels::kUpdateCounts]{};
    for (std::size_t i = 0; i < host_counts_.size(); ++i)
        sums[i % kernels::kUpdateCounts] += static_cast<std::int64_t>(host_counts_[i]);
    underflow_ = {sums[kernels::kGradientsUnderflowed], sums[kernels::kUpdatesLost], sums[kernels::kUpdatesWaiting]};
}

}  // namespace cleave

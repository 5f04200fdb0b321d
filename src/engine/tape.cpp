#include "engine/tape.h"

#include "kernels/elementwise.h"

namespace cleave {

void Tape::record(std::initializer_list<Tensor> outputs, InputHalf half, std::initializer_list<Parameter*> uses) {
    if (!recording_) return;
    Node node;
    for (const Tensor& output : outputs) {
        node.outputs.push_back(output.id());
        values_.emplace(output.id(), Value{});
    }
    node.half = std::move(half);
    nodes_.push_back(std::move(node));
    for (Parameter* parameter : uses) ++uses_left_[parameter];
}

void Tape::add_gradient(const Ref& value, Tensor gradient) {
    auto found = values_.find(value.id);
    if (found == values_.end()) return;
    CLEAVE_CHECK(gradient.layout() == value.layout.dual(), "the gradient {} is {}, but its value's dual is {}",
                 gradient.name(), to_string(gradient.layout(), engine_.mesh()),
                 to_string(value.layout.dual(), engine_.mesh()));
    Tensor& sum = found->second.gradient;
    if (!sum) {
        sum = std::move(gradient);
    } else if (sum.owns_storage_alone()) {
        engine_.launch(kernels::Accumulate{}, {gradient}, {sum});
    } else if (gradient.owns_storage_alone()) {
        engine_.launch(kernels::Accumulate{}, {sum}, {gradient});
        sum = std::move(gradient);
    } else {  // both are still somebody else's
        sum = engine_.create(kernels::Add{}, {sum, gradient}, {gradient.name(), gradient.shape(), gradient.dtype()});
    }
}

void Tape::use(Parameter& parameter, WeightHalf half) {
    WeightUse use{&parameter, std::move(half)};
    if (defer_weight_halves_)
        deferred_.push_back(std::move(use));
    else
        run_use(use);
}

void Tape::run_use(const WeightUse& use) {
    use.half();
    const auto left = uses_left_.find(use.parameter);
    CLEAVE_CHECK(left != uses_left_.end(), "{} was used more often in backward than in forward", use.parameter->name);
    if (--left->second == 0) {
        uses_left_.erase(left);
        if (ready_) ready_(*use.parameter);
    }
}

void Tape::run_nodes(const Tensor& loss) {
    CLEAVE_CHECK(recording_ && loss.shape().rank() == 0, "backward from {}", loss.name());
    Tensor one = engine_.alloc("gradient of the loss", {}, loss.layout().dual(), loss.dtype(), MemoryKind::activations);
    engine_.launch(kernels::Fill{1.0}, {one}, {one});
    add_gradient(ref(loss), std::move(one));
    while (!nodes_.empty()) {
        const Node node = std::move(nodes_.back());  // its closure, and what it saved, go when it has run
        nodes_.pop_back();
        std::vector<Tensor> gradients;
        bool any = false;
        for (std::uint64_t id : node.outputs) {
            Value& value = values_.at(id);
            gradients.push_back(value.watched ? value.gradient : std::move(value.gradient));
            any |= static_cast<bool>(gradients.back());
            if (!value.watched) values_.erase(id);
        }
        if (any) node.half(gradients);
    }
}

void Tape::backward(const Tensor& loss, const GradientReady& ready) {
    ready_ = ready;
    run_nodes(loss);
    ready_ = {};
}

void Tape::backward_inputs(const Tensor& loss) {
    defer_weight_halves_ = true;
    run_nodes(loss);
    defer_weight_halves_ = false;
}

void Tape::run_weight_halves(const GradientReady& ready) {
    ready_ = ready;
    for (WeightUse& use : deferred_) {
        run_use(use);
        use.half = {};  // frees what it held
    }
    deferred_.clear();
    ready_ = {};
}

void Tape::watch(const Tensor& tensor) {
    values_[tensor.id()].watched = true;
}

Tensor Tape::gradient_of(const Tensor& tensor) const {
    auto found = values_.find(tensor.id());
    CLEAVE_CHECK(found != values_.end() && found->second.watched, "{} is not watched", tensor.name());
    return found->second.gradient;
}

}  // namespace cleave

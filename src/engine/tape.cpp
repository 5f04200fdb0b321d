#include "engine/tape.h"

#include <utility>

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
    owner_of_uses().announce_uses(std::span(uses.begin(), uses.size()));
}

void Tape::record_hook(std::function<void()> hook) {
    if (recording_) nodes_.push_back({{}, [hook = std::move(hook)](std::span<const Tensor>) { hook(); }});
}

void Tape::announce_uses(std::span<Parameter* const> parameters) {
    for (Parameter* parameter : parameters) ++uses_left_[parameter];
}

void Tape::retract_uses(std::span<Parameter* const> parameters) {
    for (Parameter* parameter : parameters) --uses_left_.at(parameter);
}

void Tape::cheap(const Tensor& tensor, std::function<Tensor()> make) {
    if (recompute_ == Recompute::selective) remake(tensor, std::move(make));
}

void Tape::remake(const Tensor& tensor, std::function<Tensor()> make) {
    cheap_[tensor.id()] = {std::move(make), nullptr, {}};
}

void Tape::communicate_again(const Tensor& tensor, const Saved& source, std::function<Tensor()> make) {
    cheap_[tensor.id()] = {std::move(make), source.state_, {}};
}

void Tape::Saved::prepare() const {
    if (state_->value) return;
    if (state_->source)
        Saved(state_->source).prepare();
    else
        get();
}

Tape::Saved Tape::save(const Tensor& tensor) {
    const auto found = cheap_.find(tensor.id());
    if (found == cheap_.end()) return Saved(std::make_shared<Saved::State>(Saved::State{tensor, {}, {}}));
    std::shared_ptr<Saved::State> state = found->second.state.lock();
    if (!state) {
        state = std::make_shared<Saved::State>(Saved::State{{}, found->second.make, found->second.source});
        found->second.state = state;
    }
    return Saved(std::move(state));
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

Tensor Tape::take_gradient(const Ref& value) {
    auto found = values_.find(value.id);
    return found == values_.end() ? Tensor() : std::exchange(found->second.gradient, {});
}

void Tape::use_all(const Parameters& parameters, WeightHalf half) {
    if (parent_ != nullptr) return parent_->use_all(parameters, std::move(half));
    WeightUse use{parameters, std::move(half)};
    if (defer_weight_halves_)
        deferred_.push_back(std::move(use));
    else
        run_use(use);
}

void Tape::run_use(const WeightUse& use) {
    for (Parameter* parameter : use.parameters)
        if (parameter != nullptr && hooks_.before) hooks_.before(*parameter);
    use.half();
    for (Parameter* parameter : use.parameters)
        if (parameter != nullptr) count_use(*parameter);
}

void Tape::count_use(Parameter& parameter) {
    const auto left = uses_left_.find(&parameter);
    CLEAVE_CHECK(left != uses_left_.end(), "{} was used more often in backward than in forward", parameter.name);
    if (--left->second == 0) {
        uses_left_.erase(left);
        if (hooks_.ready) hooks_.ready(parameter);
    }
}

Tensor Tape::gradient_of_loss(const Tensor& loss) {
    CLEAVE_CHECK(loss.shape().rank() == 0, "backward from {}", loss.name());
    Tensor one = engine_.alloc("gradient of the loss", {}, loss.layout().dual(), loss.dtype(), MemoryKind::activations);
    engine_.launch(kernels::Fill{1.0}, {one}, {one});
    return one;
}

void Tape::run_input_halves(const Tensor& value, Tensor gradient) {
    CLEAVE_CHECK(recording_, "backward from {}", value.name());
    add_gradient(ref(value), std::move(gradient));
    cheap_.clear();  // what was saved has its own way to make it
    while (!nodes_.empty()) {
        const Node node = std::move(nodes_.back());  // its closure, and what it saved, go when it has run
        nodes_.pop_back();
        std::vector<Tensor> gradients;
        bool any = node.outputs.empty();
        for (std::uint64_t id : node.outputs) {
            Value& value = values_.at(id);
            gradients.push_back(value.watched ? value.gradient : std::move(value.gradient));
            any |= static_cast<bool>(gradients.back());
            if (!value.watched) values_.erase(id);
        }
        if (any) node.half(gradients);
    }
}

void Tape::backward_from(const Tensor& value, Tensor gradient, const GradientHooks& hooks) {
    hooks_ = hooks;
    run_input_halves(value, std::move(gradient));
    hooks_ = {};
}

void Tape::backward(const Tensor& loss, const GradientHooks& hooks) {
    backward_from(loss, gradient_of_loss(loss), hooks);
}

void Tape::backward_inputs_from(const Tensor& value, Tensor gradient) {
    defer_weight_halves_ = true;
    run_input_halves(value, std::move(gradient));
    defer_weight_halves_ = false;
}

void Tape::backward_inputs(const Tensor& loss) {
    backward_inputs_from(loss, gradient_of_loss(loss));
}

void Tape::run_weight_halves(const GradientHooks& hooks) {
    hooks_ = hooks;
    for (WeightUse& use : deferred_) {
        run_use(use);
        use.half = {};  // frees what it held
    }
    deferred_.clear();
    hooks_ = {};
}

void Tape::watch(const Tensor& tensor) {
    values_[tensor.id()].watched = true;
}

Tensor Tape::take_watched(const Tensor& tensor) {
    Tensor gradient = gradient_of(tensor);
    values_.erase(tensor.id());
    return gradient;
}

Tensor Tape::gradient_of(const Tensor& tensor) const {
    auto found = values_.find(tensor.id());
    CLEAVE_CHECK(found != values_.end() && found->second.watched, "{} is not watched", tensor.name());
    return found->second.gradient;
}

}  // namespace cleave

// The tape records differentiable functions as they run and runs their backward halves in reverse order.
//
// A function's backward is two halves: the *input half* turns the gradients of its outputs into those of its inputs;
// the *weight half* is a list of closures, one per use of a parameter, that add into the parameter's gradient. They run
// together, or the weight halves are kept for later (zero-bubble pipelines). A weight that is used twice has two
// closures.
//
// Placements follow the duals: the gradient of a value is placed as the dual of the value's layout (checked).
// Parameters are leaves: their gradients stay in the dual of the parameter's layout until the schedule's `reduce`.
//
// The tape keeps no value alive: a function saves what its backward needs in its closures, and they go with the
// closures. Thread rule: one rank's thread.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/parameter.h"

namespace cleave {

class Tape {
  public:
    // With `recording` off (evaluation, generation) functions run forward only and save nothing.
    explicit Tape(Engine& engine, bool recording = true) : engine_(engine), recording_(recording) {}

    Engine& engine() { return engine_; }
    bool recording() const { return recording_; }

    // A value of the tape without its storage, for closures that only pass a gradient on.
    struct Ref {
        std::uint64_t id;
        Layout layout;
    };
    static Ref ref(const Tensor& tensor) { return {tensor.id(), tensor.layout()}; }

    using WeightHalf = std::function<void()>;
    // `gradients`: those of the function's outputs, in the order of record(); empty tensors where nothing used an
    // output.
    using InputHalf = std::function<void(std::span<const Tensor> gradients)>;
    void record(std::initializer_list<Tensor> outputs, InputHalf half, std::initializer_list<Parameter*> uses = {});

    // For input halves. Adds `gradient` to what the value has collected; ignored where no recorded function produced
    // it.
    void add_gradient(const Ref& value, Tensor gradient);
    bool wants_gradient(const Ref& value) const { return values_.count(value.id) != 0; }
    // One use of a parameter: `half` adds its part to parameter.gradient, now or with the other weight halves.
    void use(Parameter& parameter, WeightHalf half);

    // Called when the last weight half of a parameter on this tape has run: its gradient has all of this tape's parts.
    using GradientReady = std::function<void(Parameter&)>;

    // Runs the backward of everything recorded, from `loss` (a scalar), and empties the tape.
    void backward(const Tensor& loss, const GradientReady& ready = {});
    // The input halves alone; the weight halves wait for run_weight_halves().
    void backward_inputs(const Tensor& loss);
    void run_weight_halves(const GradientReady& ready = {});

    // Lets a tensor that no function produced have a gradient, and gives it after the backward.
    void watch(const Tensor& tensor);
    Tensor gradient_of(const Tensor& tensor) const;

  private:
    struct Node {
        std::vector<std::uint64_t> outputs;
        InputHalf half;
    };
    struct WeightUse {
        Parameter* parameter;
        WeightHalf half;
    };
    struct Value {
        bool watched = false;
        Tensor gradient;
    };
    void run_nodes(const Tensor& loss);
    void run_use(const WeightUse& use);

    Engine& engine_;
    bool recording_;
    bool defer_weight_halves_ = false;
    GradientReady ready_;
    std::vector<Node> nodes_;
    std::unordered_map<std::uint64_t, Value> values_;
    std::unordered_map<Parameter*, int> uses_left_;
    std::vector<WeightUse> deferred_;
};

}  // namespace cleave

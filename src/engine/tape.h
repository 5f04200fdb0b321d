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
// closures. Under recomputation it saves less: with `selective` the outputs of norms and activations, which cost a pass
// over memory to make again; with `full` (functions.h, recomputed) a block keeps its input alone. What is made again
// has the same bits. Thread rule: one rank's thread.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/parameter.h"

namespace cleave {

enum class Recompute : std::uint8_t { none, selective, full };

// What the random decisions of one forward pass depend on beside the name of the place and the global index.
struct Randomness {
    std::uint64_t seed;
    std::uint64_t step;
    std::int64_t first_row;  // of this rank's rows, in the batch of the whole step
};

class Tape {
  public:
    // With `recording` off (evaluation, generation) functions run forward only and save nothing.
    explicit Tape(Engine& engine, bool recording = true, Recompute recompute = Recompute::none)
        : engine_(engine), recording_(recording), recompute_(recompute) {}
    // A tape for a part of `parent`'s program: run forward only, or run again by backward (`recording`; the uses of
    // parameters are then the parent's). Random decisions are the parent's.
    Tape(Tape& parent, bool recording)
        : engine_(parent.engine_), recording_(recording), randomness_(parent.randomness_), parent_(&parent) {}

    Engine& engine() { return engine_; }
    bool recording() const { return recording_; }
    Recompute recompute() const { return recompute_; }
    // None: dropout does nothing (evaluation, generation).
    const std::optional<Randomness>& randomness() const { return randomness_; }
    void set_randomness(const Randomness& randomness) { randomness_ = randomness; }

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

    // Runs `hook` when backward comes to this point: after everything that is recorded later, before what is recorded
    // earlier.
    void record_hook(std::function<void()> hook);

    // For input halves. Adds `gradient` to what the value has collected; ignored where no recorded function produced
    // it.
    void add_gradient(const Ref& value, Tensor gradient);
    // What the value has collected so far, taken from it; empty where that is nothing.
    Tensor take_gradient(const Ref& value);
    bool wants_gradient(const Ref& value) const { return values_.count(value.id) != 0; }

    // What a function keeps of a tensor for its backward. Copies share one tensor.
    class Saved {
      public:
        // The tensor; made again at the first call where it was not kept.
        const Tensor& get() const {
            if (!state_->value) state_->value = state_->make();
            return state_->value;
        }
        // For a half that runs later: makes what is computed again now. What is communicated again waits for get(), but
        // not what it comes from.
        void prepare() const;

      private:
        friend class Tape;
        struct State {
            Tensor value;
            std::function<Tensor()> make;
            std::shared_ptr<State> source;  // of what is communicated again
        };
        explicit Saved(std::shared_ptr<State> state) : state_(std::move(state)) {}
        std::shared_ptr<State> state_;
    };
    Saved save(const Tensor& tensor);
    // Tells save() how `tensor` is made again from what backward needs anyway.
    void cheap(const Tensor& tensor, std::function<Tensor()> make);
    // The same whatever is recomputed.
    void remake(const Tensor& tensor, std::function<Tensor()> make);
    // The same by communication, of what is saved of another tensor.
    void communicate_again(const Tensor& tensor, const Saved& source, std::function<Tensor()> make);

    // One use of a parameter: `half` adds its part to parameter.gradient, now or with the other weight halves.
    void use(Parameter& parameter, WeightHalf half) { use_all({&parameter, nullptr}, std::move(half)); }
    // One use of two parameters, whose gradients one kernel makes.
    void use(Parameter& first, Parameter& second, WeightHalf half) { use_all({&first, &second}, std::move(half)); }
    // A use that reads what was saved of a tensor.
    void use(Parameter& parameter, const Saved& saved, WeightHalf half) {
        if (defers_weight_halves()) saved.prepare();
        use(parameter, std::move(half));
    }
    bool is_cheap(const Tensor& tensor) const { return cheap_.count(tensor.id()) != 0; }

    // What the owner of the gradients wants to know; either may be empty.
    struct GradientHooks {
        // Before each weight half that adds to the parameter's gradient: it must be there.
        std::function<void(Parameter&)> before;
        // When the last weight half of a parameter on this tape has run: its gradient has all of this tape's parts.
        std::function<void(Parameter&)> ready;
    };

    // Runs the backward of everything recorded, from `loss` (a scalar), and empties the tape.
    void backward(const Tensor& loss, const GradientHooks& hooks = {});
    // 1, the gradient of a scalar by itself, from which its backward begins.
    Tensor gradient_of_loss(const Tensor& loss);
    // The same from any recorded value and its gradient.
    void backward_from(const Tensor& value, Tensor gradient, const GradientHooks& hooks = {});
    // The input halves alone; the weight halves wait for run_weight_halves(). What is computed again is so in the input
    // halves, and lives until the weight half that reads it.
    void backward_inputs(const Tensor& loss);
    void backward_inputs_from(const Tensor& value, Tensor gradient);
    void run_weight_halves(const GradientHooks& hooks = {});

    // Lets a tensor that no function produced have a gradient, and gives it after the backward.
    void watch(const Tensor& tensor);
    // Says before forward, and takes back before the part is recorded anew, that a part of the program which is run
    // again uses `parameters`.
    void announce_uses(std::span<Parameter* const> parameters);
    void retract_uses(std::span<Parameter* const> parameters);
    Tensor gradient_of(const Tensor& tensor) const;
    // The same, no longer kept here.
    Tensor take_watched(const Tensor& tensor);

  private:
    struct Node {
        std::vector<std::uint64_t> outputs;  // a hook has none
        InputHalf half;
    };
    using Parameters = std::array<Parameter*, 2>;  // the second may be null
    struct WeightUse {
        Parameters parameters;
        WeightHalf half;
    };
    struct Value {
        bool watched = false;
        Tensor gradient;
    };
    struct Cheap {
        std::function<Tensor()> make;
        std::shared_ptr<Saved::State> source;  // Saved::State::source
        std::weak_ptr<Saved::State> state;     // while somebody has saved it
    };
    void run_input_halves(const Tensor& value, Tensor gradient);
    bool defers_weight_halves() { return owner_of_uses().defer_weight_halves_; }
    Tape& owner_of_uses() { return parent_ == nullptr ? *this : parent_->owner_of_uses(); }
    void use_all(const Parameters& parameters, WeightHalf half);
    void run_use(const WeightUse& use);
    void count_use(Parameter& parameter);

    Engine& engine_;
    bool recording_;
    Recompute recompute_ = Recompute::none;
    std::optional<Randomness> randomness_;
    Tape* parent_ = nullptr;
    bool defer_weight_halves_ = false;
    GradientHooks hooks_;
    std::vector<Node> nodes_;
    std::unordered_map<std::uint64_t, Value> values_;
    std::unordered_map<std::uint64_t, Cheap> cheap_;
    std::unordered_map<Parameter*, int> uses_left_;
    std::vector<WeightUse> deferred_;
};

}  // namespace cleave

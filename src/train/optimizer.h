// The optimizer: norm, clipping and update of every parameter, from the reduced gradients.
//
// The global norm counts each distinct parameter once: f64 partial sums over fixed blocks of global index, added in
// block and then parameter order, so that its bits do not depend on the layout. Clipping scales by clip / (norm + 1e-6)
// where the norm is larger (Pascanu et al. 2013, section 3.2, with PyTorch's epsilon). AdamW: Loshchilov and Hutter
// 2019, algorithm 2. Moments are f32 (f64 under f64), whatever the dtype of the computation. Weight decay applies to
// matrices and tables, not to norms and biases. Thread rule: one rank's thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parallel/data_parallel.h"
#include "train/job.h"

namespace cleave {

// What an update lost to the numbers' resolution, in elements of all parameters (kernels/optimizer.h, UpdateCount).
struct Underflow {
    std::int64_t gradients = 0;
    std::int64_t updates = 0;
    std::int64_t waiting = 0;
};

class Optimizer {
  public:
    // Allocates its state (kind `optimizer`), zeroed.
    Optimizer(Engine& engine, std::span<Parameter* const> parameters, const Job& job);

    // One update. `step` counts from 1. Returns the gradients' global norm before clipping; where that is not finite
    // nothing is updated, on any rank: the norm is the same on all.
    double update(const GradientBuckets& gradients, std::int64_t step, double learning_rate);

    // Of the last update; none without train.count_underflow.
    const std::optional<Underflow>& underflow() const { return underflow_; }

    // A parameter's state tensors by name, for checkpoints: "exp_avg" and "exp_avg_sq" under AdamW, none under SGD.
    struct State {
        Parameter* parameter;
        std::vector<std::pair<std::string, Tensor>> tensors;
    };
    const std::vector<State>& states() const { return states_; }

  private:
    double norm(const GradientBuckets& gradients);
    void update_parameter(std::size_t index, const Tensor& gradient, std::int64_t step, double learning_rate,
                          double gradient_scale);
    void read_counts();

    Engine& engine_;
    const Job::Train train_;
    std::vector<State> states_;
    Tensor partials_;  // f64, every parameter's blocks one after another
    Tensor counts_;    // f64, every parameter's UpdateCounts one after another; empty where nothing is counted
    std::vector<double> host_counts_;
    std::optional<Underflow> underflow_;
};

}  // namespace cleave

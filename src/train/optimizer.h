// The optimizer: norm, clipping and update of every parameter, from the reduced gradients.
//
// It works bucket by bucket on what the store's masters are: all of them in ZeRO's stage 0, this rank's shards in the
// others. The global norm counts each distinct parameter once: f64 partial sums over blocks of each parameter
// (kNormBlock elements), gathered over the shards, added over the ranks that cut a layer, then in block and parameter
// order, so that its bits depend neither on the stage nor on the buckets. Clipping scales by clip / (norm + 1e-6) where
// the norm is larger (Pascanu et al. 2013, section 3.2, with PyTorch's epsilon). AdamW: Loshchilov and Hutter 2019,
// algorithm 2. Moments are f32 (f64 under f64), whatever the dtype of the computation. Weight decay applies to matrices
// and tables, not to norms and biases. Thread rule: one rank's thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parallel/gradient_buckets.h"
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
    // Allocates its state (kind `optimizer`), zeroed, for the parameters of `store`, which it updates.
    Optimizer(ParameterStore& store, const Job& job);

    // One update. `step` counts from 1. Returns the gradients' global norm before clipping; where that is not finite
    // nothing is updated, on any rank: the norm is the same on all.
    double update(const GradientBuckets& gradients, std::int64_t step, double learning_rate);

    // Of the last update; none without train.count_underflow.
    const std::optional<Underflow>& underflow() const { return underflow_; }

    // State by name, for checkpoints, placed as the store's masters: "exp_avg" and "exp_avg_sq" under AdamW, none under
    // SGD.
    struct State {
        std::string name;
        Flats flats;
    };
    const std::vector<State>& states() const { return states_; }
    const ParameterStore& store() const { return store_; }

  private:
    double norm(const GradientBuckets& gradients);
    // The bucket's partial sums, whole, on this host.
    std::span<const double> whole_partials(std::size_t bucket);
    void update_bucket(std::size_t bucket, const Tensor& gradient, std::int64_t step, double learning_rate,
                       double gradient_scale);
    void read_counts();

    ParameterStore& store_;
    Engine& engine_;
    const Job::Train train_;
    std::vector<State> states_;
    Flats partials_;  // f64, of each bucket's blocks, placed as its gradient
    Flats counts_;    // f64 UpdateCounts of each bucket; none where nothing is counted
    std::vector<std::shared_ptr<PendingTransition>> gathering_;
    std::vector<std::vector<double>> host_partials_;  // of each bucket
    std::vector<double> squares_;                     // of each parameter of the whole model
    std::optional<Underflow> underflow_;
};

}  // namespace cleave

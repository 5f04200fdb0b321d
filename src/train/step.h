// One training step, written once for every engine: it interprets a schedule. What a step is: for every microbatch
// forward and backward, the gradients' transition to the optimizer's placement, norm, clipping, update.
//
// The loss is the mean over the global batch's labels that are not masked, whatever the layout: their count, over all
// microbatches and ranks, is known before the first backward, and every microbatch's loss and gradient is scaled by it.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "parallel/data_parallel.h"
#include "parallel/schedule.h"
#include "train/optimizer.h"
#include "train/samples.h"

namespace cleave {

struct StepResult {
    double loss = 0;  // mean over the global batch
    double gradient_norm = 0;
    std::int64_t tokens = 0;  // of the global batch, counted from the data
};

class TrainStep {
  public:
    TrainStep(Engine& engine, Transformer& model, const Job& job);

    // `microbatches`: this rank's. `step` counts from 1. Throws RunError on every rank, before anything is updated,
    // where loss or gradient norm is not finite.
    StepResult run(const std::vector<Samples>& microbatches, std::int64_t step, double learning_rate);

    // The parts of run(), for proofs on raw gradients: forward, backward and reduction, without norm and update.
    double accumulate_gradients(const std::vector<Samples>& microbatches);

    const GradientBuckets& gradients() const { return gradients_; }
    const Optimizer& optimizer() const { return optimizer_; }

  private:
    struct InFlight {
        int microbatch;
        std::unique_ptr<Tape> tape;
        Tensor loss;
    };
    StepResult interpret(const std::vector<Samples>& microbatches, bool update, std::int64_t step,
                         double learning_rate);
    std::int64_t count_labels(const std::vector<Samples>& microbatches);
    void forward(const Samples& samples, int microbatch, double scale);
    void backward(const ScheduleAction& action);
    double reduce();

    Engine& engine_;
    Transformer& model_;
    std::vector<Parameter*> parameters_;
    GradientBuckets gradients_;
    Optimizer optimizer_;
    std::vector<InFlight> in_flight_;  // microbatches between forward and backward
    Tensor loss_sum_;
};

// This rank's rows of token ids or labels as a tensor of the global batch.
Tensor write_samples(Engine& engine, const Transformer& model, std::string_view name,
                     std::span<const std::int32_t> host);

}  // namespace cleave

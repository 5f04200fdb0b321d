// One training step, written once for every engine: it interprets a schedule. What a step is: for every microbatch
// forward and backward, the gradients' transition to the optimizer's placement, norm, clipping, update.
//
// The loss is the mean over the global batch's labels that are not masked, whatever the layout: their count, over all
// microbatches and ranks, is known before the first backward, and every microbatch's loss and gradient is scaled by it.
// In a pipeline a rank interprets its own stage's part of the schedule; only the stages that hold the embedding read
// token ids, only those with the head labels, and loss, norm and counts are the same on all.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "parallel/data_parallel.h"
#include "parallel/gradient_buckets.h"
#include "parallel/pipeline_run.h"
#include "train/optimizer.h"
#include "train/samples.h"

namespace cleave {

struct StepResult {
    double loss = 0;    // cross entropy, the mean over the global batch
    double z_loss = 0;  // what train.z_loss adds to it before it is differentiated
    double gradient_norm = 0;
    std::int64_t tokens = 0;             // labels of the global batch that are not masked, counted from the data
    std::optional<Underflow> underflow;  // with train.count_underflow, of the update
    bool skipped = false;                // loss or norm is not finite, and nothing was updated
};

class TrainStep {
  public:
    TrainStep(Engine& engine, Transformer& model, const Job& job);

    // `microbatches`: this rank's. `step` counts from 1. Where loss or gradient norm is not finite nothing is updated:
    // the step is skipped, or, after train.skip_nonfinite such steps in a row, RunError is thrown. Both values are sums
    // over all ranks, so that all of them decide alike.
    StepResult run(const std::vector<Samples>& microbatches, std::int64_t step, double learning_rate);

    // The parts of run(), for proofs on raw gradients: forward, backward and reduction, without norm and update.
    double accumulate_gradients(const std::vector<Samples>& microbatches);

    // Adds the times of the computing of the next steps to `times`.
    void measure(std::vector<TimedAction>* times) { times_ = times; }

    const GradientBuckets& gradients() const { return gradients_; }
    const Optimizer& optimizer() const { return optimizer_; }
    // Of the whole run: the optimizer's own count of updates leaves them out. A checkpoint keeps the number.
    std::int64_t skipped_steps() const { return skipped_steps_; }
    void set_skipped_steps(std::int64_t steps) { skipped_steps_ = steps; }

  private:
    StepResult interpret(const std::vector<Samples>& microbatches, bool update, std::int64_t step,
                         double learning_rate);
    std::int64_t count_labels(const std::vector<Samples>& microbatches);
    ChunkProgram program_of(const std::vector<Samples>& microbatches, double scale);
    Tensor losses(Tape& tape, const Tensor& stream, const Tensor& labels, double scale);
    void reduce();
    double read_sum(Tensor& sum);
    const PipelineSchedule& schedule_of(int microbatches);
    void skip(std::int64_t step, std::string_view what, double value, StepResult& result);

    Engine& engine_;
    Transformer& model_;
    const Job job_;  // its own: callers may pass a temporary
    GradientBuckets gradients_;
    Optimizer optimizer_;
    PipelineSchedule schedule_;  // of the last step
    Tensor loss_sum_;            // of the microbatches so far; empty where the head is elsewhere
    Tensor z_loss_sum_;
    std::vector<TimedAction>* times_ = nullptr;
    std::uint64_t step_ = 0;  // the one that runs
    std::int64_t skipped_steps_ = 0;
    std::int64_t skipped_in_a_row_ = 0;
};

std::int64_t unmasked_labels(const Samples& samples);
// The sum of a count over the ranks that share a batch of layout `tokens`; `stated` on the virtual engine.
std::int64_t sum_over_batch(Engine& engine, const Layout& tokens, std::int64_t count, std::int64_t stated);

// This rank's rows of token ids or labels as a tensor of the global batch.
Tensor write_samples(Engine& engine, const Transformer& model, std::string_view name,
                     std::span<const std::int32_t> host);
// The same of one list of `samples`, which may be counted only (then on the virtual engine).
Tensor write_samples(Engine& engine, const Transformer& model, std::string_view name, const Samples& samples,
                     const std::vector<std::int32_t>& host);
// What the model must know of these rows beside their tokens.
SequenceContext write_context(Engine& engine, const Transformer& model, const Samples& samples);

}  // namespace cleave

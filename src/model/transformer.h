// A decoder-only transformer: embedding, blocks, final norm, output projection (often the embedding again),
// cross-entropy. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/block.h"

namespace cleave {

class Transformer {
  public:
    // Declares the parameters and allocates their values on `engine`; initialize() or a checkpoint fills them.
    Transformer(Engine& engine, const ModelConfig& config, const ModelLayouts& layouts, DType compute);
    Transformer(const Transformer&) = delete;  // the tape and the optimizer point to its parameters
    Transformer& operator=(const Transformer&) = delete;

    // [b t] -> [b t v]. A context with a cache needs a tape that does not record.
    Tensor logits(Tape& tape, const Tensor& tokens, const SequenceContext& context = {});
    // Of token `at` of each row alone, [b 1 v], for a tape that does not record: nothing is projected to the vocabulary
    // that is not asked for.
    Tensor logits_at(Tape& tape, const Tensor& tokens, std::int64_t at, const SequenceContext& context = {});
    // scale x the sum of the label's negative log-likelihood, a scalar; labels as in cross_entropy.
    Tensor loss(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale,
                const SequenceContext& context = {});
    // With the z-loss beside it.
    Loss losses(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale, double z_loss,
                const SequenceContext& context = {});

    // Weights from (seed, name, global index).
    void initialize(std::uint64_t seed);
    // After the masters have changed by other means than the optimizer: copies them into the values.
    void refresh_values();

    std::vector<Parameter*> parameters();  // in the order of first use
    std::int64_t parameter_count();        // each distinct parameter's elements once
    const ModelConfig& config() const { return config_; }
    const ModelLayouts& layouts() const { return layouts_; }
    DType compute() const { return compute_; }

  private:
    Tensor hidden(Tape& tape, const Tensor& tokens, const SequenceContext& context);  // [b t] -> [b t c]
    Tensor with_positions(Tape& tape, const Tensor& x, const SequenceContext& context);
    Tensor head(Tape& tape, const Tensor& x);  // [b t c] -> [b t v]

    Engine& engine_;
    ModelConfig config_;
    ModelLayouts layouts_;
    DType compute_;
    Parameter token_table_;
    std::optional<Parameter> position_table_;  // gpt2
    std::vector<std::unique_ptr<Block>> blocks_;
    Parameter final_gain_;
    std::optional<Parameter> final_bias_;  // gpt2
    std::optional<Parameter> output_;      // where it is not the token table
};

}  // namespace cleave

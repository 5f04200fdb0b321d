// A decoder-only transformer: embedding, blocks, final norm, output projection (often the embedding again),
// cross-entropy. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/block.h"
#include "parallel/parameter_store.h"

namespace cleave {

class Transformer {
  public:
    // Declares the parameters and has a store allocate them on `engine`; initialize() or a checkpoint fills them.
    Transformer(Engine& engine, const ModelConfig& config, const ModelLayouts& layouts, DType compute,
                const ZeroOptions& zero = {});
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

    // The owner of the parameters' memory.
    ParameterStore& store() { return *store_; }
    // Weights from (seed, name, global index).
    void initialize(std::uint64_t seed) { store_->initialize(seed); }

    std::vector<Parameter*> parameters();  // in the order of first use
    std::int64_t parameter_count();        // each distinct parameter's elements once
    const ModelConfig& config() const { return config_; }
    const ModelLayouts& layouts() const { return layouts_; }
    DType compute() const { return compute_; }

  private:
    struct Marks {  // of a part, in the trace
        std::string forward, backward;
    };
    Tensor hidden(Tape& tape, const Tensor& tokens, const SequenceContext& context);  // [b t] -> [b t c]
    Tensor embedded(Tape& tape, const Tensor& tokens, const SequenceContext& context);
    Tensor with_positions(Tape& tape, const Tensor& x, const SequenceContext& context);
    using Backward = ParameterStore::Backward;
    // A part of the model, marked in the trace, with its parameters there.
    Tensor part(Tape& tape, int group, Backward backward, const std::function<Tensor()>& body);
    Tensor head(Tape& tape, const Tensor& x);              // [b t c] -> [b t v], v cut where the table is
    Arriving head_input(Tape& tape, const Tensor& x);      // [b t c], normed, as the output matrix reads it
    Tensor cut_logits(Tape& tape, const Arriving& input);  // [b t c] -> [b t v], v cut where the table is
    void number_groups();

    Engine& engine_;
    ModelConfig config_;
    ModelLayouts layouts_;
    DType compute_;
    Parameter token_table_;
    std::optional<Parameter> position_table_;  // gpt2
    std::vector<std::unique_ptr<Block>> blocks_;
    Parameter final_gain_;
    std::optional<Parameter> final_bias_;  // gpt2
    std::vector<Marks> marks_;             // by group
    std::optional<Parameter> output_;      // where it is not the token table
    std::unique_ptr<ParameterStore> store_;
};

}  // namespace cleave

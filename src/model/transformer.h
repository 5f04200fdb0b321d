// A decoder-only transformer: embedding, blocks, final norm, output projection (often the embedding again),
// cross-entropy.
//
// In a pipeline (parallel/pipeline.h) a rank holds *chunks* of it, and the training step asks for one chunk at a time;
// the functions for the whole model then pass the stream from stage to stage themselves, forward only.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/block.h"
#include "parallel/parameter_store.h"
#include "parallel/pipeline.h"

namespace cleave {

class Transformer {
  public:
    // Declares the parameters and has a store allocate them on `engine`; initialize() or a checkpoint fills them.
    Transformer(Engine& engine, const ModelConfig& config, const ModelLayouts& layouts, DType compute,
                const ZeroOptions& zero = {}, const PipelineForm& pipeline = {});
    Transformer(const Transformer&) = delete;  // the tape and the optimizer point to its parameters
    Transformer& operator=(const Transformer&) = delete;

    // What the chunks of this rank's stage hold; one, the whole model, where there is no pipeline.
    const std::vector<ModelPart>& chunks() const { return chunks_; }
    // The stream [b t c] after a chunk's blocks. `input`: tokens [b t] where the chunk has the embedding, otherwise the
    // stream of the chunk before.
    Tensor chunk_stream(Tape& tape, int chunk, const Tensor& input, const SequenceContext& context);
    // The losses of a chunk that has the head, from its stream.
    Loss chunk_losses(Tape& tape, const Tensor& stream, const Tensor& labels, double scale, double z_loss);
    // A loss of 0, for a stage without the head.
    Tensor zero_loss();
    // Memory for the stream of `rows` sequences of the batch, all ranks together.
    Tensor alloc_stream(std::int64_t rows, std::int64_t tokens);

    // [b t] -> [b t v]. A context with a cache needs a tape that does not record.
    Tensor logits(Tape& tape, const Tensor& tokens, const SequenceContext& context = {});
    // Of token `at` of each row alone, [b 1 v], for a tape that does not record: nothing is projected to the vocabulary
    // that is not asked for. On the ranks of every stage.
    Tensor logits_at(Tape& tape, const Tensor& tokens, std::int64_t at, const SequenceContext& context = {});
    // scale x the sum of the label's negative log-likelihood, a scalar; labels as in cross_entropy. 0 on a stage
    // without the head.
    Tensor loss(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale,
                const SequenceContext& context = {});
    // With the z-loss beside it.
    Loss losses(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale, double z_loss,
                const SequenceContext& context = {});

    // The owner of the parameters' memory.
    ParameterStore& store() { return *store_; }
    // Weights from (seed, name, global index).
    void initialize(std::uint64_t seed) { store_->initialize(seed); }

    std::vector<Parameter*> parameters();  // of the whole model, in the order of first use
    std::int64_t parameter_count();        // each distinct parameter's elements once
    const ModelConfig& config() const { return config_; }
    const ModelLayouts& layouts() const { return layouts_; }
    DType compute() const { return compute_; }

  private:
    struct Marks {  // of a part, in the trace
        std::string forward, backward;
    };
    // [b t] -> [b t c]; empty on a stage without the head.
    Tensor hidden(Tape& tape, const Tensor& tokens, const SequenceContext& context);
    Tensor sent_to_all(Tensor logits, std::int64_t rows);
    void place_parameters();
    Block& block(std::int64_t layer) { return *blocks_[static_cast<std::size_t>(layer)]; }
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
    PipelineForm pipeline_;
    int stage_;  // of the pipeline
    std::vector<ModelPart> parts_;
    std::vector<ModelPart> chunks_;
    Parameter token_table_;
    std::optional<Parameter> position_table_;  // gpt2
    std::vector<std::unique_ptr<Block>> blocks_;
    Parameter final_gain_;
    std::optional<Parameter> final_bias_;  // gpt2
    std::vector<Marks> marks_;             // by group, of the whole model: embedding, blocks, head
    std::vector<int> virtual_stages_;      // by group
    std::optional<Parameter> output_;      // where it is not the token table
    std::unique_ptr<ParameterStore> store_;
};

}  // namespace cleave

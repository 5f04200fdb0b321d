// A toy model for measuring and showing pipelines: square matrices with GELU between them. What the last one gives are
// the logits of a cross-entropy with as many classes as the model is wide.
//
// Inputs, labels and weights follow from the seed, a name and the global index: the same however the model is cut and
// however many microbatches there are. Nothing learns; the gradients of a step are the result.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "parallel/pipeline_run.h"

namespace cleave {

struct MlpConfig {
    std::int64_t layers = 8;
    std::int64_t width = 1024;
    std::int64_t batch = 1024;  // rows of a step, a multiple of its microbatches
    DType dtype = DType::f32;
    std::uint64_t seed = 1;
};

// The chunks that a rank's stage holds of it.
class Mlp {
  public:
    // One matrix, in memory of this chunk alone.
    struct Layer {
        std::int64_t index;  // in the model
        Parameter matrix;    // [width out, width in]
    };

    // `form` has the layers evenly, at least one a virtual stage. The mesh has the axis pp alone, or is one rank.
    Mlp(Engine& engine, const MlpConfig& config, const PipelineForm& form);

    // Begins a step.
    void zero_gradients();
    ChunkProgram program(int microbatches);

    // Of this stage, chunk after chunk. Where two chunks hold a layer (Route::mirrored), each has a term of its
    // gradient.
    const std::deque<Layer>& layers() const { return layers_; }
    // The sum of the losses that this stage has made since zero_gradients(): the mean over the batch, or 0.
    double loss() const;

  private:
    struct Chunk {
        ModelPart part;
        std::size_t first_layer;  // in layers_
    };
    Parameter make_matrix(std::int64_t layer) const;
    void make_batch();
    Tensor forward(Tape& tape, const Chunk& chunk, const Range& rows, const Tensor& input);

    Engine& engine_;
    MlpConfig config_;
    std::vector<Chunk> chunks_;
    std::deque<Layer> layers_;    // tapes hold addresses of their matrices
    Tensor inputs_;               // [batch, width] where the first virtual stage is
    Tensor labels_;               // [batch] where the last one is
    std::vector<Tensor> losses_;  // scalars
};

}  // namespace cleave

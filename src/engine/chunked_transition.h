// A transition in chunks of this rank's rows (dim 0: sequences of the microbatch). Each chunk is a collective of its
// own, so that products of rows that have come run beside the chunks that are on their way, or the sums of rows that
// are made beside the products of the next. Chunks change no bit: sums are taken element by element in the canonical
// order (comm/algorithm.h). Chunks of one sequence lie as the collective wants them, and need no packing.
//
// A sum on all ranks takes the place of its terms. Where nothing is communicated, or the rows themselves are cut anew,
// there is one chunk. Thread rule: one rank's thread.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"

namespace cleave {

class ChunkedTransition {
  public:
    // `most`: chunks; as many as rows where those are fewer.
    ChunkedTransition(Engine& engine, const Tensor& from, const Layout& to, int most);

    int count() const { return static_cast<int>(pending_.size()); }
    Range rows(int chunk) const { return cut(row_count_, chunk, count()); }
    // Each chunk once, in ascending order; finish() of one that is not in flight does nothing.
    void start(int chunk);
    void finish(int chunk);
    // Starts all chunks. The tensor that they come into; a single chunk has come.
    Tensor start_all();
    Tensor finish_all();

  private:
    Engine& engine_;
    Tensor from_;  // until the last chunk is under way
    Layout to_;
    Tensor result_;  // of several chunks, from the beginning
    std::int64_t row_count_;
    std::vector<std::shared_ptr<PendingTransition>> pending_;
};

}  // namespace cleave

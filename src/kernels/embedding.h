// Token and position embedding. Tokens are i32. A local table may hold rows [offset, offset + rows) only of the
// vocabulary: Embedding then gives zero rows for the other tokens (the result is a term of the sum). A token outside
// the whole vocabulary is a broken invariant. Gradients of tables have the accumulator's dtype and are added to what is
// there (+=), rows of dy in ascending order; rows of the table that are not local are left out.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct Embedding : Declared<"embedding", "#tokens[r..] table[v c] -> y[r.. c]"> {
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct EmbeddingBackward : Declared<"embedding_backward", "#tokens[r..] dy[r.. c] -> dtable[v? c]"> {  // dtable +=
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y = x + table[position0 + t], t the global index
struct AddPositions : Declared<"add_positions", "x[b t c] + table[p! c] -> y[b t c]"> {
    explicit AddPositions(std::int64_t position0_ = 0) : position0(position0_) {}
    std::int64_t position0;

    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AddPositionsBackward : Declared<"add_positions_backward", "dy[b t c] -> dtable[p! c]"> {  // dtable +=
    explicit AddPositionsBackward(std::int64_t position0_ = 0) : position0(position0_) {}
    std::int64_t position0;

    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// positions[b t] (i32) = t - first[b t], t the global index: where a token stands in its document, which begins at
// `first`.
struct DocumentPositions : Declared<"document_positions", "#first[b t] -> positions[b t]"> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

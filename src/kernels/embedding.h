// Token and position embedding. Tokens are i32. A local table may hold rows [offset, offset + rows) only of the
// vocabulary: Embedding then gives zero rows for the other tokens (the result is a term of the sum). A token outside
// the whole vocabulary is a broken invariant. Gradients of tables have the accumulator's dtype and are added to what is
// there (+=), rows of dy in ascending order; rows of the table that are not local are left out.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct Embedding : Kernel {  // tokens, table -> y
    std::string_view name() const override { return "embedding"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// The signature gives dtable as a whole; where the caller holds a slice of its rows only, that slice is computed.
struct EmbeddingBackward : Kernel {  // tokens, dy -> dtable +=
    std::string_view name() const override { return "embedding_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AddPositions : Kernel {  // x[b t c], table[p c] -> y = x + table[t], t the global index
    std::string_view name() const override { return "add_positions"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AddPositionsBackward : Kernel {  // dy[b t c] -> dtable[p c] +=
    std::string_view name() const override { return "add_positions_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

// The attention of one query to each sample: what a token's pass of generation consists of. Every key and value is read
// once, where it stands; packing them first (attention.cpp) is worth it for many queries only.
// Thread rule: as a kernel.
#pragma once

#include "kernels/attention_mask.h"

namespace cleave::kernels {

inline bool is_row_attention(const AttentionForm& form, const AttentionShape& shape) {
    return shape.queries == 1 && !form.dropout;
}

std::int64_t row_attention_workspace(const AttentionShape& shape, DType dtype);

// Operands, already checked, as Attention::run has them.
void row_attention(const AttentionForm& form, const AttentionShape& shape, Views inputs, Views outputs,
                   void* workspace);

}  // namespace cleave::kernels

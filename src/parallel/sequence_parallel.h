// Sequence parallelism (Korthikanti et al. 2022): along the ranks of tensor parallelism the stream is cut by tokens, so
// that norms, dropout and residual sums work on t / n tokens. The same bytes as tensor parallelism's all_reduces:
//
//   into the products    S(1) -> R   all_gather, backward reduce_scatter
//   out of them          P -> S(1)   reduce_scatter, backward all_gather
//   norms, positions     R, since each rank uses them for tokens of its own: their gradient is P, summed over tp as any
//                        partial gradient is
//
// What backward needs of the gathered tensor, the products' weight gradients, it keeps whole, or gathers again (one
// all_gather a pair more, 2 b t c (n - 1)/n elements a rank, layer and step) so that all that is kept is over n.
// Thread rule: values.
#pragma once

#include "parallel/layouts.h"

namespace cleave {

// Changes layouts to which tensor parallelism has been added; nothing where it has one rank.
void add_sequence_parallelism(ModelLayouts& layouts, bool gather_again);

}  // namespace cleave

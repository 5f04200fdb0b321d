// Tensor parallelism (Shoeybi et al. 2019, "Megatron-LM"): the first matrix of a pair is cut by its outputs, the second
// by its inputs, attention by heads, the token table by rows of the vocabulary. Between the pairs the stream is the
// same on all ranks of tp (I). All of it is placements:
//
//   into the products    I -> R      nothing, backward all_reduce      (Megatron's f)
//   out of them          P -> I      all_reduce, backward nothing      (Megatron's g)
//   the token table      S(0)        gives P -> I; logits are S(2) and never gathered for the loss
//   keys and values      S over tp.kv, R over tp.rep where there are fewer key heads than ranks
//
// bytes: a layer sends 2 all_reduces of the stream a direction, on a ring 8 b t c (n - 1)/n elements a rank and step.
// Thread rule: values.
#pragma once

#include <cstdint>

#include "parallel/layouts.h"

namespace cleave {

// How tp ranks share `key_heads` key heads, each of which serves `group` query heads: `keys` ranks cut the key heads,
// `groups` the query heads of one. keys x groups = tp; groups is 0 where tp cannot cut the heads evenly.
struct HeadCut {
    int keys = 1;
    int groups = 1;
};
HeadCut cut_heads(int tp, std::int64_t key_heads, std::int64_t group);

// Gives a mesh with the axis tp its sub-axes tp.kv and tp.rep where key heads are fewer than ranks.
void add_head_axes(Mesh& mesh, std::int64_t key_heads, std::int64_t group);

// Adds the axis tp of `mesh` (its sub-axes where it has them) to layouts without it; nothing where it has one rank.
void add_tensor_parallelism(ModelLayouts& layouts, const Mesh& mesh);

}  // namespace cleave

// A parallel strategy is a choice of placements. ModelLayouts is all that a model asks of it: how activations lie in
// the two regions of a block, and how a parameter lies by the role of its dims. One file a strategy fills it in
// (data_parallel.h, tensor_parallel.h, sequence_parallel.h).
//
//   the stream    [b t c] embedding, norms, dropout, residual sums: what is done token by token
//   the products  [b t c] what matrices that are cut by their outputs read; attention and MLP up to the matrix that is
//                 cut by its inputs, whose sum is a transition back to the stream
//
// Thread rule: values.
#pragma once

#include "placement/placement.h"

namespace cleave {

struct ModelLayouts {
    Layout tokens;              // [b t] token ids and labels
    Layout stream;              // [b t c]
    Layout products;            // [b t c]
    bool gather_again = false;  // from stream to products once more in backward, so that what is kept is the stream's

    int chunks = 1;  // of the transitions between stream and products, beside the products of their rows

    // Parameters of the stream: gains and biases of norms, tables of positions.
    Layout stream_parameter;
    // Biases of matrices that are cut by their inputs: added once to the sum, before it is complete.
    Layout sum_parameter;
    // What is in common to the others, and the axes that cut them; none where nothing is cut.
    Layout cut_parameter;
    std::vector<AxisId> cut_axes;
    // Those of cut_axes that cut key heads, and those that cut the query heads of one key head, along which keys and
    // values are the same: tp.kv and tp.rep, or tp and none.
    std::vector<AxisId> key_axes;
    std::vector<AxisId> group_axes;

    // A matrix, bias or table of which dim `dim` is cut: outputs of the first matrix of a pair, inputs of the second,
    // heads, rows of the token table.
    Layout cut(int dim) const;
    // Its query heads [.. g r ..] cut as key heads (dim `keys`) and as those that share one (dim `group`).
    Layout cut_heads(int keys, int group) const;
    // Of key heads alone: the same on all ranks that share them.
    Layout cut_keys(int keys) const;
};

// Every P becomes R: a value summed over the ranks that hold its terms.
Layout summed(const Layout& layout);
// The layout of a sum over all elements of a tensor: P wherever the tensor is cut.
Layout sum_over_elements(const Layout& layout);
// `layout` with the same placement along all of `axes`.
Layout along(Layout layout, const std::vector<AxisId>& axes, Placement placement);

}  // namespace cleave

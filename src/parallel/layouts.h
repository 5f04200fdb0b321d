// A parallel strategy is a choice of placements. ModelLayouts is all that the model asks of it.
// Thread rule: values.
#pragma once

#include "placement/placement.h"

namespace cleave {

struct ModelLayouts {
    Layout tokens;       // [b t] token ids and labels
    Layout activations;  // [b t ..] the residual stream and everything computed from it row by row
    Layout parameters;   // every parameter
};

// Every P becomes R: a value summed over the ranks that hold its terms.
Layout summed(const Layout& layout);
// The layout of a sum over all elements of a tensor: P wherever the tensor is cut.
Layout sum_over_elements(const Layout& layout);

}  // namespace cleave

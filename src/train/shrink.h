// The smallest job of the same layout: what a proof takes where the model does not fit on one rank.
// Thread rule: pure functions.
#pragma once

#include <string>

#include "train/job.h"

namespace cleave {

// Width, depth, context, vocabulary and batch as small as leaves every division of the layout as it is: as many heads,
// hidden units, words and sequences to each rank, or nearly so where they do not divide evenly. `ranks`: of the layout.
Job shrunk(const Job& job, int ranks);

// What became smaller: "model.layers 96 -> 2, model.width 12288 -> 64".
std::string shrinkage(const Job& before, const Job& after);

}  // namespace cleave

// Evaluation: forward only, with a normalisation of its own: the mean over all labels of all its batches that are not
// masked, whatever the layout and the batch size.
// Thread rule: one rank's thread.
#pragma once

#include "train/step.h"

namespace cleave {

// `batches`: this rank's rows of each batch; every rank has equally many rows of a batch. `labels`: of all ranks and
// batches together, not masked.
double evaluate(Engine& engine, Transformer& model, const std::vector<Samples>& batches, std::int64_t labels);

}  // namespace cleave

// Evaluation: forward only, with a normalisation of its own: the mean over all labels of all its batches that are not
// masked, whatever the layout and the batch size.
// Thread rule: one rank's thread.
#pragma once

#include <functional>

#include "train/step.h"

namespace cleave {

// `draw(i)` gives this rank's rows of batch i, of `batches`, valid until the next call; every rank has equally many
// rows of a batch. `labels`: of all ranks and batches together, not masked.
double evaluate(Engine& engine, Transformer& model, std::int64_t batches,
                const std::function<const Samples&(std::int64_t)>& draw, std::int64_t labels);

}  // namespace cleave

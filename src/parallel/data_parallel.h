// Data parallelism: the batch is S(0) along dp, parameters are R. A parameter's gradient is then P along dp (the dual
// of R), and the one communication of a step is its transition from P to R (parallel/gradient_buckets.h).
// Thread rule: values.
#pragma once

#include <vector>

#include "parallel/layouts.h"

namespace cleave {

// The axes that share the batch, outermost first: dp, or dp.out and dp.in where ZeRO has split it.
std::vector<AxisId> batch_axes(const Mesh& mesh);

ModelLayouts data_parallel_layouts(const Mesh& mesh);

}  // namespace cleave

// From a job to the arrangement of its ranks and the placements of its model.
// Thread rule: pure functions.
#pragma once

#include "parallel/layouts.h"
#include "train/job.h"

namespace cleave {

// The mesh that a job asks for on `ranks` ranks. The job is checked.
Mesh mesh_of(const Job& job, int ranks);
ModelLayouts layouts_of(const Job& job, const Mesh& mesh);

}  // namespace cleave

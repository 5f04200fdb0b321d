#include "train/job_layout.h"

#include "parallel/data_parallel.h"
#include "parallel/sequence_parallel.h"
#include "parallel/tensor_parallel.h"
#include "parallel/zero.h"

namespace cleave {

Mesh mesh_of(const Job& job, int ranks) {
    Mesh mesh({{"pp", job.mesh.pp}, {"dp", data_parallel_ranks(job, ranks)}, {"cp", job.mesh.cp}, {"tp", job.mesh.tp}});
    if (job.zero.stage > 0) split_for_zero(mesh, job.zero.group);
    add_head_axes(mesh, job.model.key_value_heads(), job.model.query_group());
    return mesh;
}

ModelLayouts layouts_of(const Job& job, const Mesh& mesh) {
    ModelLayouts layouts = data_parallel_layouts(mesh);
    add_tensor_parallelism(layouts, mesh);
    if (job.mesh.tp > 1) layouts.chunks = job.tensor_parallel_chunks;
    if (job.sequence_parallel)
        add_sequence_parallelism(layouts, job.sequence_parallel_inputs == SequenceInputs::gathered);
    return layouts;
}

}  // namespace cleave

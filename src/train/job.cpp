#include "train/job.h"

namespace cleave {

int data_parallel_ranks(const Job& job, int ranks) {
    const auto& mesh = job.mesh;
    const int others = mesh.pp * mesh.cp * mesh.tp;
    if (mesh.dp != 0) return mesh.dp;
    return others > 0 && ranks % others == 0 ? ranks / others : 0;
}

std::int64_t microbatch_size(const Job& job, int dp) {
    if (job.train.microbatch != 0) return job.train.microbatch;
    const std::int64_t smallest = job.train.ramp_batch == 0 ? job.train.batch : job.train.ramp_batch;
    CLEAVE_CHECK(dp > 0 && smallest % dp == 0);
    return smallest / dp;
}

std::int64_t accumulation(const Job& job, int dp, std::int64_t batch) {
    const std::int64_t together = dp * microbatch_size(job, dp);
    CLEAVE_CHECK(batch % together == 0, "a batch of {} in passes of {}", batch, together);
    return batch / together;
}

}  // namespace cleave

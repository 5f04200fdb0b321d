#include "train/job.h"

namespace cleave {

int data_parallel_ranks(const Job& job, int ranks) {
    const auto& mesh = job.mesh;
    const int others = mesh.pp * mesh.cp * mesh.tp;
    if (mesh.dp != 0) return mesh.dp;
    return others > 0 && ranks % others == 0 ? ranks / others : 0;
}

std::int64_t microbatch_size(const Job& job, int dp) {
    CLEAVE_CHECK(dp > 0 && job.train.batch % dp == 0);
    return job.train.microbatch == 0 ? job.train.batch / dp : job.train.microbatch;
}

std::int64_t accumulation(const Job& job, int dp) {
    const std::int64_t share = dp * microbatch_size(job, dp);
    CLEAVE_CHECK(job.train.batch % share == 0);
    return job.train.batch / share;
}

}  // namespace cleave

#include "train/job.h"

#include <algorithm>

namespace cleave {

int data_parallel_ranks(const Job& job, int ranks) {
    const auto& mesh = job.mesh;
    const int others = mesh.pp * mesh.cp * mesh.tp;
    if (mesh.dp != 0) return mesh.dp;
    return others > 0 && ranks % others == 0 ? ranks / others : 0;
}

ZeroOptions zero_options(const Job& job) {
    return {.stage = job.zero.stage, .reduce = job.zero.reduce, .bucket_bytes = job.train.bucket_bytes};
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

std::int64_t communication_chunks(const Job& job, int dp) {
    return std::min<std::int64_t>(job.tensor_parallel_chunks, microbatch_size(job, dp));
}

}  // namespace cleave

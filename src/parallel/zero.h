// ZeRO (Rajbhandari et al. 2020): what all ranks of data parallelism hold alike is cut over them instead. Nothing but
// placements along the axes of the batch changes:
//
//              value    gradient (reduced)    optimizer state, master
//     stage 0  R        R                     R
//     stage 1  R        S(0)                  S(0)
//     stage 2  R        S(0), whole only while a microbatch's backward makes it
//     stage 3  S(0), R only while a part of the model uses it
//
// parallel/parameter_buckets.h says what is cut, parallel/parameter_store.h owns values, parallel/gradient_buckets.h
// gradients, train/optimizer.h the state. Thread rule: values.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/mesh.h"

namespace cleave {

// When the gradients of stages 2 and 3 are reduced: after each microbatch, so that none is whole for longer than its
// backward; or once a step, for fewer bytes at the memory of stage 1.
enum class ZeroReduce : std::uint8_t { microbatch, step };

struct ZeroOptions {
    int stage = 0;
    ZeroReduce reduce = ZeroReduce::microbatch;
    std::int64_t bucket_bytes = 4 << 20;  // about; of gradients. Stage 3 has a bucket for each part of the model
};

// The axes that ZeRO cuts over: dp; or, where the mesh has split it, dp.in.
std::vector<AxisId> zero_axes(const Mesh& mesh);

// Hybrid sharding: splits dp into dp.out and dp.in, `group` ranks that are neighbours along dp. Shards lie within a
// group and are the same in every group. Nothing where the group is all of dp.
void split_for_zero(Mesh& mesh, int group);

}  // namespace cleave

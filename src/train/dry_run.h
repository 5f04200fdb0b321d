// The step run dry: the same model, schedule and step on the virtual engine, for every rank. Nothing is allocated but
// the account of it: of samples only their number counts, and of many microbatches, which are alike, three are run.
// Thread rule: a plain function; ranks are run one after the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/ledger.h"
#include "comm/types.h"
#include "placement/mesh.h"
#include "train/job.h"

namespace cleave {

struct RankPlan {
    int rank = 0;
    std::string coordinates;                         // on the mesh
    std::int64_t peak_bytes = 0;                     // the ledger's high-water mark of one step
    BytesByKind at_peak{};                           // what it consists of
    std::int64_t extent_bytes = 0;                   // of the arena: the peak and what lies between blocks
    std::map<std::string, std::int64_t> bytes_sent;  // by collective, in one step
    double flops = 0;                                // of one step
    double kernel_bytes = 0;                         // read and written by its kernels
    std::int64_t launches = 0;
};

// The mesh that a job asks for on `ranks` ranks. The job is checked.
Mesh mesh_of(const Job& job, int ranks);

// job.model.vocabulary is set. `team`: threads of a rank.
std::vector<RankPlan> dry_run(const Job& job, int ranks, comm::TransportKind transport, int team);

// Memory alone, of rank 0: the ranks of data parallelism hold the same. Milliseconds.
RankPlan memory_plan(const Job& job, int ranks, comm::TransportKind transport, int team);

}  // namespace cleave

// The step run dry: the same model, schedule and step on the virtual engine, for every rank. Nothing is allocated but
// the account of it: of samples only their number counts, and of many microbatches, which are alike, three are run.
// Thread rule: a plain function; ranks are run one after the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/ledger.h"
#include "comm/types.h"
#include "train/job_layout.h"
#include "train/samples.h"

namespace cleave {

struct RankPlan {
    int rank = 0;
    std::string coordinates;                         // on the mesh
    std::int64_t layers = 0;                         // of the model that its stage has
    std::int64_t peak_bytes = 0;                     // the ledger's high-water mark of one step
    BytesByKind at_peak{};                           // what it consists of
    std::int64_t extent_bytes = 0;                   // of the arena: the peak and what lies between blocks
    std::map<std::string, std::int64_t> bytes_sent;  // by collective, in one step
    double flops = 0;                                // of one step
    double kernel_bytes = 0;                         // read and written by its kernels
    std::int64_t launches = 0;
};

// job.model.vocabulary is set. `team`: threads of a rank.
std::vector<RankPlan> dry_run(const Job& job, int ranks, comm::TransportKind transport, int team);

// One rank's.
RankPlan rank_plan(const Job& job, const Mesh& mesh, int rank, comm::TransportKind transport, int team);

// So many microbatches of one rank, of which only the number of samples counts.
std::vector<Samples> counted_microbatches(const Job& job, int dp, std::int64_t count);

// Memory alone, of the rank of each pipeline stage that holds most: the last, which has the larger piece of what does
// not divide evenly. Milliseconds.
std::vector<RankPlan> stage_plans(const Job& job, int ranks, comm::TransportKind transport, int team);
// Of the stage that needs most.
RankPlan memory_plan(const Job& job, int ranks, comm::TransportKind transport, int team);

}  // namespace cleave

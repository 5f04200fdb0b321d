// Does a run fit into memory? Asked before its first step.
// Thread rule: called from the main thread.
#pragma once

#include "base/memory.h"
#include "train/dry_run.h"
#include "train/job.h"

namespace cleave {

// What a rank of `ranks` holds beside its arena and samples, at most: its stack and scratch, the large page that its
// arena ends in, and the step programs of its collectives, whose moves go by pairs of ranks.
std::int64_t rank_overhead_bytes(int ranks);

// Throws UserError where `local_ranks` of the `dp` ranks, each of this plan, do not fit into what this machine has
// left: the planned bytes by kind, what is there, what to lower.
void check_memory(const Job& job, int dp, const RankPlan& plan, int local_ranks, const AvailableMemory& available);

// The same for a job that begins now on `ranks` ranks, threads of this process or processes under mpirun.
void check_memory(const Job& job, int ranks, int team);

}  // namespace cleave

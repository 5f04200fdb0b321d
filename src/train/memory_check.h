// Does a run fit into memory? Asked before its first step.
// Thread rule: called from the main thread.
#pragma once

#include "base/memory.h"
#include "train/dry_run.h"
#include "train/job.h"

namespace cleave {

// Throws UserError where `local_ranks` of the `dp` ranks, each of this plan, do not fit into what this machine has
// left: the planned bytes by kind, what is there, what to lower.
void check_memory(const Job& job, int dp, const RankPlan& plan, int local_ranks, const AvailableMemory& available);

// The same for a job that begins now on `ranks` ranks, threads of this process or processes under mpirun.
void check_memory(const Job& job, int ranks, int team);

}  // namespace cleave

// run_ranks: one function on n ranks. The same program runs as one process (n = 1, no threads), as threads of one
// process (inproc) or as MPI processes (under mpirun).
#pragma once

#include <functional>
#include <optional>

#include "comm/communicator.h"

namespace cleave::comm {

struct LaunchOptions {
    int ranks = 0;                                // 0: as many as mpirun started, 1 without it
    std::optional<TransportKind> transport = {};  // not given: mpi under mpirun, inproc otherwise
    Duration timeout = std::chrono::seconds(300);
    // Without fingerprints ranks that disagree may hang or mix data: only to measure what they cost (mpi only; inproc
    // always has them).
    bool fingerprints = true;
    // After a failure the other ranks have this long to return; then the process ends (kExitRankFailure).
    Duration grace = std::chrono::seconds(30);
};

// Whether mpirun (or another MPI launcher) started this process.
bool under_mpirun();

// Where this process stands among those that the launcher started: without one it is the only one. Does not initialise
// MPI where the launcher's environment says it, as Open MPI's and MPICH's do.
struct ProcessPlace {
    int rank = 0;
    int count = 1;
    int local_count = 1;  // on this machine
};
ProcessPlace process_place();

// Calls rank_main(world) on every rank and returns when all have returned. An exception on one rank reaches every other
// rank as a RankFailure out of its next (or present) operation; the first in time is rethrown here.
void run_ranks(const LaunchOptions& options, const std::function<void(Communicator& world)>& rank_main);

}  // namespace cleave::comm

// The value of --ranks: how many ranks a command runs on.
// Thread rule: reads the launcher's environment.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/words.h"
#include "comm/launch.h"

namespace cleave::cli {

inline constexpr std::int64_t kMostRanks = 1 << 20;

// Under mpirun the ranks are the processes it started, otherwise what was asked for; `standard` where that is 0.
inline int chosen_ranks(std::int64_t asked, int standard) {
    if (!comm::under_mpirun()) return asked != 0 ? static_cast<int>(asked) : standard;
    const int processes = comm::process_place().count;
    if (asked != 0 && asked != processes)
        throw UserError(
            "--ranks: found {}, but mpirun has started {}, each of them a rank; accepted: {}, or no --ranks", asked,
            counted(processes, "process", "processes"), processes);
    return processes;
}

// Threads of one process are this many ranks at most: each holds the programs of its collectives, of as many moves as
// the square of the ranks, together 2 GB here (and 140 GB with 1024 ranks).
inline constexpr int kMostThreads = 256;

// `named`: what asked for them.
inline void check_threads(int ranks, std::string_view named) {
    if (!comm::under_mpirun() && ranks > kMostThreads)
        throw UserError(
            "{}: found {}, but each rank is a thread of this process; accepted: from 1 to {}, or mpirun, whose "
            "processes are the ranks",
            named, ranks, kMostThreads);
}

}  // namespace cleave::cli

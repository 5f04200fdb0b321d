// The value of --ranks: how many ranks a command runs on.
// Thread rule: reads the launcher's environment.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "comm/launch.h"

namespace cleave::cli {

inline constexpr std::int64_t kMostRanks = 1 << 20;

// Under mpirun the ranks are the processes it started, otherwise what was asked for; `standard` where that is 0.
inline int chosen_ranks(std::int64_t asked, int standard) {
    if (!comm::under_mpirun()) return asked != 0 ? static_cast<int>(asked) : standard;
    const int processes = comm::process_place().count;
    if (asked != 0 && asked != processes)
        throw UserError(
            "--ranks: found {}, but mpirun has started {} processes, each of them a rank; accepted: {}, or no --ranks",
            asked, processes, processes);
    return processes;
}

}  // namespace cleave::cli

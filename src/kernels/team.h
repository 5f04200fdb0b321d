// The rank's team of threads: parallel_for over OpenMP. Chunks begin at multiples of the grain, so that a kernel whose
// work on each grain stands alone gives the same bits for every team size. Thread rule: called by a rank's thread, not
// from inside another parallel_for; returns when every chunk is done.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace cleave::kernels {

inline int team_size() {
    return omp_get_max_threads();
}

// Threads that a parallel_for(n, grain, ..) uses at most: as many scratch areas does it need.
inline std::int64_t chunk_count(std::int64_t n, std::int64_t grain) {
    return std::min<std::int64_t>(team_size(), (n + grain - 1) / grain);
}

// Calls f(begin, end), or f(begin, end, chunk) with chunk < chunk_count(n, grain), on ranges that tile [0, n). f may
// not throw.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
    if (n <= 0) return;
    const std::int64_t chunks = chunk_count(n, grain);
    const std::int64_t grains = (n + grain - 1) / grain;
    auto run = [&](std::int64_t chunk) {
        const std::int64_t begin = grains * chunk / chunks * grain;
        const std::int64_t end = std::min(n, grains * (chunk + 1) / chunks * grain);
        if constexpr (std::is_invocable_v<F, std::int64_t, std::int64_t, std::int64_t>)
            f(begin, end, chunk);
        else
            f(begin, end);
    };
    if (chunks == 1) return run(0);
#pragma omp parallel num_threads(static_cast <int>(chunks))
    // The runtime may give fewer threads than were asked for.
    for (std::int64_t chunk = omp_get_thread_num(); chunk < chunks; chunk += omp_get_num_threads()) run(chunk);
}

// Calls f(task, worker), worker < chunk_count(n, 1), for every task of [0, n), each once. A thread that is free takes
// the next one: for tasks of unequal work, each of which stands alone.
template <class F>
void parallel_tasks(std::int64_t n, F&& f) {
    const std::int64_t workers = chunk_count(n, 1);
    if (workers <= 1) {
        for (std::int64_t task = 0; task < n; ++task) f(task, std::int64_t{0});
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast <int>(workers))
    for (std::int64_t task = 0; task < n; ++task) f(task, static_cast<std::int64_t>(omp_get_thread_num()));
}

}  // namespace cleave::kernels

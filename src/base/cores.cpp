#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

namespace cleave {
namespace {

// Tens of microseconds: longer than the gap between two kernels, much shorter than a time slice.
constexpr const char* kSpins = "1000";

bool is_set(const char* name) {
    return std::getenv(name) != nullptr;
}

}  // namespace

int machine_cores() {
    return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

int available_cores() {
    // The kernel refuses a mask that is too short for its own.
    for (std::size_t most = CPU_SETSIZE; most <= std::size_t{1} << 20; most *= 2) {
        std::vector<cpu_set_t> mask(most / CPU_SETSIZE);
        const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
        if (::sched_getaffinity(0, bytes, mask.data()) == 0) return std::max(1, CPU_COUNT_S(bytes, mask.data()));
    }
    return machine_cores();
}

std::optional<int> asked_threads() {
    const char* text = std::getenv("OMP_NUM_THREADS");
    if (text == nullptr) return std::nullopt;
    std::string_view words(text);
    words.remove_prefix(std::min(words.find_first_not_of(' '), words.size()));
    int threads = 0;
    const auto [end, problem] = std::from_chars(words.data(), words.data() + words.size(), threads);
    const bool number = problem == std::errc() && (end == words.data() + words.size() || *end == ',' || *end == ' ');
    return number && threads >= 1 ? std::optional(threads) : std::nullopt;
}

int threads_a_rank(int local_ranks, bool processes) {
    if (const auto asked = asked_threads()) return *asked;
    const int ranks = std::max(1, local_ranks);
    const int cores = available_cores();
    // A process with a part of the machine got it from its launcher, for itself alone; it leaves the others theirs.
    if (processes && cores < machine_cores()) return std::max(1, std::min(cores, machine_cores() / ranks));
    return std::max(1, cores / ranks);
}

void prepare_threads(char** argv) {
    if (is_set("OMP_WAIT_POLICY") || is_set("GOMP_SPINCOUNT") || is_set("KMP_BLOCKTIME")) return;
    ::setenv("GOMP_SPINCOUNT", kSpins, 1);
    ::setenv("KMP_BLOCKTIME", "0", 1);  // the same of LLVM's library
    ::execv("/proc/self/exe", argv);
}

}  // namespace cleave

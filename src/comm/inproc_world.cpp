#include "comm/inproc_world.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <thread>

#include "base/cores.h"
#include "comm/inproc.h"

namespace cleave::comm {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is a plain 32-bit word");

// std::atomic::wait knows no time limit, so the futex is called directly.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration limit) {
    const auto ns = std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count());
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &time, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// The last cache that this machine's cores share. sysconf is not asked: in a virtual machine it adds up the caches of
// the whole processor (320 MiB where a core has 32).
std::int64_t last_cache_bytes() {
    for (const char* level : {"3", "2"}) {
        std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level));
        std::int64_t kibibytes = 0;
        char unit = 0;
        if (file >> kibibytes >> unit && kibibytes > 0 && unit == 'K') return kibibytes << 10;
    }
    return std::int64_t{32} << 20;
}

bool has_a_core_each(int ranks) {
    return ranks <= available_cores();
}

}  // namespace

InprocWorld::InprocWorld(int size)
    : ranks_(static_cast<std::size_t>(size)),
      cache_bytes_(last_cache_bytes()),
      small_bytes_(has_a_core_each(size) ? 32 << 10 : 256 << 10),
      core_each_(has_a_core_each(size)),
      // Waking a sleeper costs several microseconds, so a waiting rank looks for a while: with a core of its own
      // between pauses, otherwise giving the core to the others each time.
      looks_(core_each_ ? 2000 : 50) {
    moved_.reserve(ranks_.size());
    for (int r = 0; r < size; ++r) moved_.emplace_back(kOperations * ranks_.size());
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    whole_ = std::make_shared<InprocGroupState>(all);
}

InprocWorld::~InprocWorld() = default;

std::shared_ptr<InprocGroupState> InprocWorld::group(int rank, const std::vector<int>& world_ranks) {
    const std::uint64_t occurrence = state(rank).groups_made[world_ranks]++;
    const std::lock_guard lock(registry_mutex_);
    const auto key = std::make_pair(world_ranks, occurrence);
    Registered& entry = registry_[key];
    if (!entry.state) entry.state = std::make_shared<InprocGroupState>(world_ranks);
    auto found = entry.state;
    if (++entry.fetched == world_ranks.size()) registry_.erase(key);
    return found;
}

void InprocWorld::pause() const {
    if (!core_each_) return std::this_thread::yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void InprocWorld::ring(int rank) {
    RankState& s = state(rank);
    if (!s.sleeping.load(std::memory_order_seq_cst)) return;
    s.bell.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(s.bell);
}

void InprocWorld::ring_all() {
    for (int r = 0; r < size(); ++r) ring(r);
}

std::uint32_t InprocWorld::announce_sleep(int rank) {
    RankState& s = state(rank);
    s.sleeping.store(true, std::memory_order_seq_cst);
    return s.bell.load(std::memory_order_seq_cst);
}

void InprocWorld::sleep(int rank, std::uint32_t announced, Duration limit, const Request& what) {
    RankState& s = state(rank);
    if (!s.has_status) {
        const std::lock_guard lock(s.mutex);
        s.waiting_in = what.describe();
        s.has_status = true;
    }
    futex_wait(s.bell, announced, limit);
}

void InprocWorld::wake(int rank) {
    RankState& s = state(rank);
    if (s.sleeping.load(std::memory_order_relaxed)) s.sleeping.store(false, std::memory_order_relaxed);
    if (!s.has_status) return;
    const std::lock_guard lock(s.mutex);
    s.waiting_in.clear();
    s.has_status = false;
}

bool InprocWorld::fail(int reporter, int culprit, const std::string& message,
                       const std::exception_ptr& exception) noexcept {
    bool first = false;
    {
        const std::lock_guard lock(failure_mutex_);
        if (reporter_ < 0) {
            reporter_ = reporter;
            culprit_ = culprit;
            failure_ = message;
        }
        if (reporter_ == reporter && !exception_ && exception) {
            exception_ = exception;
            if (culprit_ == reporter) failure_ = message;  // the rank's own last word is the cause
        }
        first = reporter_ == reporter;
        failed_.store(true, std::memory_order_seq_cst);
    }
    ring_all();
    return first;
}

void InprocWorld::check_failure(int rank) const {
    if (!failed_.load(std::memory_order_seq_cst)) return;
    const std::lock_guard lock(failure_mutex_);
    throw RankFailure(culprit_, fmt::format("rank {} stops: rank {} failed: {}", rank, culprit_, failure_));
}

std::exception_ptr InprocWorld::first_exception() const {
    const std::lock_guard lock(failure_mutex_);
    return exception_;
}

void InprocWorld::wait_until_untouched(int rank) const noexcept {
    for (int r = 0; r < size(); ++r)
        while (r != rank && state(r).executing.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

void InprocWorld::finish(int rank) {
    state(rank).finished.store(true, std::memory_order_seq_cst);
    ring_all();
}

std::string InprocWorld::status(int rank) const {
    if (finished(rank)) return "has finished";
    const RankState& s = state(rank);
    const std::lock_guard lock(s.mutex);
    return s.waiting_in.empty() ? "" : "is waiting in " + s.waiting_in;
}

void InprocWorld::count(int rank, Operation operation, int from, int to, std::int64_t bytes) {
    if (from == to) return;
    const auto add = [bytes](std::atomic<std::int64_t>& sum) {
        sum.store(sum.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    };
    Moved& moved = moved_[static_cast<std::size_t>(rank)];
    add(moved.sent[cell(operation, from)]);
    add(moved.received[cell(operation, to)]);
}

Stats InprocWorld::traffic(int rank) const {
    Stats stats;
    for (const Moved& mover : moved_)
        for (std::size_t o = 0; o < kOperations; ++o) {
            const std::size_t at = cell(static_cast<Operation>(o), rank);
            stats.sent[o] += mover.sent[at].load(std::memory_order_relaxed);
            stats.received[o] += mover.received[at].load(std::memory_order_relaxed);
        }
    return stats;
}

}  // namespace cleave::comm

// The world of the inproc transport: what the rank threads of one process share.
//
// Invariants: a rank's memory is touched by others only between its issue of an operation and that operation's
// completion, and only while the toucher's `executing` is set; once `failed` is set nobody starts touching.
// Thread rule: every member function may be called by every rank thread; `rank` is always the caller's own rank.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/transport.h"

namespace cleave::comm {

struct InprocGroupState;

class InprocWorld {
  public:
    explicit InprocWorld(int size);
    ~InprocWorld();

    int size() const { return static_cast<int>(ranks_.size()); }
    std::shared_ptr<InprocGroupState> whole() const { return whole_; }
    // The shared state of the k-th group that `rank` makes of exactly these world ranks.
    std::shared_ptr<InprocGroupState> group(int rank, const std::vector<int>& world_ranks);

    // Waiting: Endpoint's rules. Whoever changes what a rank may wait for rings; that costs a look at whether it
    // sleeps. No wake-up is lost: the changer writes, then looks; the sleeper announces, then looks (all sequentially
    // consistent).
    int looks_before_sleep() const { return looks_; }
    void pause() const;
    void ring(int rank);
    void ring_all();
    std::uint32_t announce_sleep(int rank);
    // Between sleep and wake others see what this rank waits in.
    void sleep(int rank, std::uint32_t announced, Duration limit, const Request& what);
    void wake(int rank);

    // Brackets every access to another rank's memory. Throws RankFailure if the world has failed.
    class Touching {
      public:
        Touching(InprocWorld& world, int rank) : flag_(world.state(rank).executing) {
            flag_.store(true, std::memory_order_seq_cst);
            if (world.failed_.load(std::memory_order_seq_cst)) {
                flag_.store(false, std::memory_order_release);
                world.check_failure(rank);
            }
        }
        ~Touching() { flag_.store(false, std::memory_order_release); }
        Touching(const Touching&) = delete;
        Touching& operator=(const Touching&) = delete;

      private:
        std::atomic<bool>& flag_;
    };

    // The first failure in time is the one that counts. `exception` (may be null) is what the launcher rethrows;
    // the failing rank may add it later, `reporter` tells them apart. True if `reporter` is the first.
    bool fail(int reporter, int culprit, const std::string& message, const std::exception_ptr& exception) noexcept;
    void check_failure(int rank) const;
    bool failed() const { return failed_.load(std::memory_order_seq_cst); }
    std::exception_ptr first_exception() const;
    // Returns once no other rank touches memory that is not its own. Only after fail().
    void wait_until_untouched(int rank) const noexcept;

    void finish(int rank);  // `rank` will do nothing more
    bool finished(int rank) const { return state(rank).finished.load(std::memory_order_seq_cst); }
    // "is waiting in send to rank 0, ...", "has finished", or empty.
    std::string status(int rank) const;

    // Whether memory of so many bytes, all ranks' together, is better written past the caches. Measured
    // (bench/collectives): up to the size of the last cache plain stores win, from twice that streaming ones.
    // Exactly its size does not fit: it is never ours alone.
    bool exceeds_cache(std::int64_t bytes) const { return bytes >= cache_bytes_; }

    // Whether buffers of so many bytes, all ranks' together, are moved in less time than it takes ranks to meet.
    bool is_small(std::int64_t bytes) const { return bytes <= small_bytes_; }

    // Bytes that `rank` has moved from one rank to another.
    void count(int rank, Operation operation, int from, int to, std::int64_t bytes);
    Stats traffic(int rank) const;

  private:
    // NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the padding keeps ranks out of each other's cache lines
    struct alignas(64) RankState {
        std::atomic<bool> sleeping{false};  // or about to
        alignas(64) std::atomic<std::uint32_t> bell{0};
        alignas(64) std::atomic<bool> executing{false};
        std::atomic<bool> finished{false};
        mutable std::mutex mutex;
        std::string waiting_in;                                 // guarded by mutex
        bool has_status = false;                                // whether that is set; the rank's own
        std::map<std::vector<int>, std::uint64_t> groups_made;  // the rank's own
    };
    RankState& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    const RankState& state(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

    std::vector<RankState> ranks_;
    // Bytes by what was done and whose they are: [operation][rank].
    using Bytes = std::vector<std::atomic<std::int64_t>>;
    std::size_t cell(Operation operation, int rank) const {
        return static_cast<std::size_t>(operation) * ranks_.size() + static_cast<std::size_t>(rank);
    }
    // What one rank has moved: written by it alone, read by all. Spare cells keep ranks out of each other's cache
    // lines.
    struct Moved {
        static constexpr std::size_t kSpare = 8;
        explicit Moved(std::size_t cells) : sent(cells + kSpare), received(cells + kSpare) {}
        Bytes sent, received;
    };
    std::vector<Moved> moved_;  // [mover]
    std::int64_t cache_bytes_;
    std::int64_t small_bytes_;
    bool core_each_;
    int looks_;
    std::shared_ptr<InprocGroupState> whole_;

    struct Registered {
        std::shared_ptr<InprocGroupState> state;
        std::size_t fetched = 0;
    };
    std::mutex registry_mutex_;
    std::map<std::pair<std::vector<int>, std::uint64_t>, Registered> registry_;

    std::atomic<bool> failed_{false};
    mutable std::mutex failure_mutex_;
    int reporter_ = -1;
    int culprit_ = -1;
    std::string failure_;
    std::exception_ptr exception_;
};

}  // namespace cleave::comm

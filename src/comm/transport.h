// What a transport gives to the communicator: groups of ranks that start operations, and a way to wait and to fail.
// Two implementations: comm/inproc*.h (ranks are threads) and comm/mpi*.h (ranks are MPI processes).
//
// Thread rule: everything here belongs to one rank and is used by that rank's thread alone.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/fingerprint.h"
#include "comm/program.h"
#include "comm/scratch_pool.h"

namespace cleave::comm {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;

// What really moved, counted where it moved (never taken from a program), and where the rank's time went.
struct Stats {
    std::array<std::int64_t, kOperations> sent{};      // bytes from this rank to others, by Operation
    std::array<std::int64_t, kOperations> received{};  // bytes from others to this rank
    std::int64_t control_bytes = 0;                    // fingerprints sent to others (mpi; inproc sends none)
    double wait_seconds = 0;                           // blocked in wait(), moving nothing
    double move_seconds = 0;                           // combining and copying on this rank's thread

    std::int64_t sent_by(Operation operation) const { return sent[static_cast<std::size_t>(operation)]; }
    std::int64_t received_by(Operation operation) const { return received[static_cast<std::size_t>(operation)]; }
};

// One rank's call of a collective. Program and schedule outlive the request; both are null for Algorithm::native.
struct Collective {
    const Spec* spec;
    const Program* program;
    const Schedule* schedule;
    const void* in;
    void* out;
    DType dtype;
    ReduceOp op;
};

struct Message {
    int peer;  // in the group
    int tag;
    void* data;  // not written by a send
    std::int64_t count;
    DType dtype;
    std::int64_t bytes() const { return count * size_of(dtype); }
};
// "recv from rank 3, tag 7 (f32, 12 elements)"; `what` is the first part, `peer` a world rank.
std::string describe_message(const char* what, int peer, const Message& m);

// One rank's share of an operation, from issue to completion. Destroyed only when complete or after a failure.
class Request {
  public:
    virtual ~Request() = default;
    // Does all that can be done without waiting; true once complete. Throws RankFailure if ranks disagree.
    virtual bool advance() = 0;
    // Whether to advance at once when issued; otherwise the rank's next wait, test or progress does.
    virtual bool starts_at_issue() const { return false; }
    // "all_reduce #12 (sum, f32, 1024 elements, direct) of ranks 0, 2" or "send to rank 3, tag 7, ..."
    virtual std::string describe() const = 0;
    // Who is waited for, and what is known of them: "rank 3 has not arrived". `culprit` receives the first of them.
    virtual std::string waiting_for(int& culprit) const = 0;
    // Throws RankFailure if what is waited for can never come (a rank that has finished).
    virtual void check_possible() const {}
};

// What a rank shares among all of its groups.
class Endpoint {
  public:
    virtual ~Endpoint() = default;
    virtual TransportKind kind() const = 0;
    virtual int world_rank() const = 0;
    virtual int world_size() const = 0;

    // Waiting without a lost wake-up: look a few times; then announce the sleep, look once more, and sleep until
    // something has changed since the announcement, `limit` at most. `what` is shown to others who wait for this rank.
    virtual int looks_before_sleep() const = 0;
    virtual void pause_between_looks() = 0;
    virtual std::uint32_t announce_sleep() = 0;
    virtual void sleep(std::uint32_t announced, Duration limit, const Request& what) = 0;
    // The wait has ended, asleep or not.
    virtual void wait_is_over() = 0;

    // Throws RankFailure if any rank has failed.
    virtual void check_failure() = 0;
    // Tells every rank that `culprit` failed (only the first failure counts), and returns once no other rank touches
    // this rank's buffers any more. True if this was the first failure.
    virtual bool fail(int culprit, const std::string& message) noexcept = 0;

    virtual Stats stats() const = 0;  // without wait_seconds, which the communicator adds
    virtual double move_seconds() const = 0;
    ScratchPool& scratch() { return scratch_; }

  private:
    ScratchPool scratch_;
};

class Group {
  public:
    virtual ~Group() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual int world_rank(int rank) const = 0;
    virtual std::unique_ptr<Request> start(const Collective& collective) = 0;
    virtual std::unique_ptr<Request> start_send(const Message& message) = 0;
    virtual std::unique_ptr<Request> start_recv(const Message& message) = 0;
    // Before subgroup(ranks): complete once all of them have come to make it. Null where nobody need wait for others.
    virtual std::unique_ptr<Request> meet(std::span<const int>) { return nullptr; }
    // `ranks` are ranks of this group; called by every one of them with the same list, by nobody else.
    virtual std::unique_ptr<Group> subgroup(std::span<const int> ranks) = 0;
    // What keeps a native collective from being possible, empty if nothing does.
    virtual std::string why_not_native(Operation operation, DType dtype, ReduceOp op) const = 0;
};

}  // namespace cleave::comm

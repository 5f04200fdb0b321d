// Communicator: one rank's membership of one group of ranks, and everything the group can do together.
//
// Every operation is issued at once and returns a Handle; `comm.all_reduce(...).wait()` is the blocking form. Nothing
// is defined about buffers between issue and completion; several operations may be in flight and waited for in any
// order. Ranks of a group issue its collectives in the same order with the same arguments; ranks that disagree, stop
// early or do not arrive within the timeout give a RankFailure on every rank, never a hang. Wrong arguments give a
// UserError.
//
// Buffers: `in` is never written and must not overlap `out`; but all_reduce and reduce may have in == out, and (not by
// native) reduce_scatter its out, all_gather its in, in the place of this rank's piece of the other. Sums follow one
// canonical order (comm/combine.h) unless ring or native is named; bf16 is summed in f32. Counts are in elements.
//
// Thread rule: a Communicator belongs to the thread that runs its rank. Copies are the same communicator.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/algorithm.h"
#include "comm/progress.h"

namespace cleave::comm {

// An operation in flight. Its destructor waits: a dropped handle is a blocking call.
class [[nodiscard]] Handle {
  public:
    Handle() = default;  // of nothing: complete
    Handle(std::shared_ptr<Progress> progress, std::unique_ptr<PendingOperation> operation);
    Handle(Handle&&) noexcept = default;
    Handle& operator=(Handle&& other) noexcept;
    ~Handle();

    void wait();  // throws RankFailure
    bool test();  // does what can be done now; true once complete

  private:
    void release() noexcept;
    std::shared_ptr<Progress> progress_;
    std::unique_ptr<PendingOperation> operation_;
    int exceptions_at_issue_ = 0;
};

class Communicator {
  public:
    using Counts = std::span<const std::int64_t>;  // one a rank of the group, zero allowed

    Communicator(std::shared_ptr<Progress> progress, std::unique_ptr<Group> group);

    int rank() const { return state_->group->rank(); }
    int size() const { return state_->group->size(); }
    int world_rank(int rank) const { return state_->group->world_rank(rank); }
    TransportKind transport() const { return state_->progress->endpoint().kind(); }

    // The communicator of some ranks of this group (ascending, without repetition). Called by exactly those ranks, with
    // the same list; nobody else takes part. Over mpi it waits for them, like an operation: with the same timeout.
    Communicator group(std::span<const int> ranks) const;

    // From root's data to everyone's; count elements.
    Handle broadcast(void* data, std::int64_t count, DType dtype, int root, Algorithm algorithm = Algorithm::automatic);
    // Root's in, size() pieces one after another, piece r to rank r's out. `in` is used on the root only.
    Handle scatter(const void* in, void* out, std::int64_t piece, DType dtype, int root,
                   Algorithm algorithm = Algorithm::automatic);
    Handle scatter(const void* in, void* out, Counts counts, DType dtype, int root,
                   Algorithm algorithm = Algorithm::automatic);
    // The inverse of scatter. `out` is used on the root only.
    Handle gather(const void* in, void* out, std::int64_t piece, DType dtype, int root,
                  Algorithm algorithm = Algorithm::automatic);
    Handle gather(const void* in, void* out, Counts counts, DType dtype, int root,
                  Algorithm algorithm = Algorithm::automatic);
    // Element-wise over the ranks, to root's out; other ranks' out is untouched.
    Handle reduce(const void* in, void* out, std::int64_t count, DType dtype, ReduceOp op, int root,
                  Algorithm algorithm = Algorithm::automatic);
    // Everyone's out is the pieces of ranks 0, 1, ... one after another.
    Handle all_gather(const void* in, void* out, std::int64_t piece, DType dtype,
                      Algorithm algorithm = Algorithm::automatic);
    Handle all_gather(const void* in, void* out, Counts counts, DType dtype,
                      Algorithm algorithm = Algorithm::automatic);
    // in is size() pieces; rank r's out is the element-wise reduction of everyone's piece r.
    Handle reduce_scatter(const void* in, void* out, std::int64_t piece, DType dtype, ReduceOp op,
                          Algorithm algorithm = Algorithm::automatic);
    Handle reduce_scatter(const void* in, void* out, Counts counts, DType dtype, ReduceOp op,
                          Algorithm algorithm = Algorithm::automatic);
    Handle all_reduce(const void* in, void* out, std::int64_t count, DType dtype, ReduceOp op,
                      Algorithm algorithm = Algorithm::automatic);
    // Piece d of rank s becomes piece s of rank d. Unequal: counts[s * size() + d], the same matrix on every rank.
    Handle all_to_all(const void* in, void* out, std::int64_t piece, DType dtype,
                      Algorithm algorithm = Algorithm::automatic);
    Handle all_to_all(const void* in, void* out, Counts counts, DType dtype,
                      Algorithm algorithm = Algorithm::automatic);
    // Complete when every rank has issued it. Other operations stay pending: a barrier is not a wait.
    Handle barrier(Algorithm algorithm = Algorithm::automatic);

    // Any collective by its Spec (its size is filled in): what the wrappers above call.
    Handle start(Spec spec, const void* in, void* out, DType dtype, ReduceOp op = ReduceOp::sum);

    // Messages between two ranks, matched by (sender, tag) in the order of issue. A send completes when its message has
    // been received; no size is buffered, so that a program that deadlocks does so for every size.
    Handle isend(const void* data, std::int64_t count, DType dtype, int to, int tag = 0);
    Handle irecv(void* data, std::int64_t count, DType dtype, int from, int tag = 0);
    void send(const void* data, std::int64_t count, DType dtype, int to, int tag = 0);
    void recv(void* data, std::int64_t count, DType dtype, int from, int tag = 0);

    // Does this rank's part of everything pending, as far as possible now: for calling between pieces of other work.
    void progress() { state_->progress->advance(); }

    // Of this rank in all groups, since the start.
    Stats stats() const { return state_->progress->stats(); }
    // Of this rank in all groups.
    void set_timeout(Duration timeout) { state_->progress->set_timeout(timeout); }
    // The algorithm that `automatic` stands for.
    Algorithm chosen(Operation operation, std::int64_t bytes) const {
        return choose_algorithm(operation, size(), bytes, transport());
    }

  private:
    struct State {
        std::shared_ptr<Progress> progress;
        std::unique_ptr<Group> group;
        ProgramCache programs;
    };
    Handle start(Operation operation, Algorithm algorithm, int root, Counts counts, const void* in, void* out,
                 DType dtype, ReduceOp op);
    Handle pending(std::unique_ptr<PendingOperation> operation) const;
    void check_message(int peer, std::int64_t count) const;

    std::shared_ptr<State> state_;
};

}  // namespace cleave::comm

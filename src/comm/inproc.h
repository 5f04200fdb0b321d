// The inproc transport: ranks are threads of one process and read and write each other's buffers directly.
//
// A collective has a place, found by its sequence number in the group, where every rank publishes its buffers, its
// fingerprint and how far it is. A rank takes a step of its schedule as soon as the ranks it needs are far enough;
// there is no barrier. Point-to-point messages are rendezvous: the receiver copies from the sender's buffer.
//
// Thread rule: an InprocEndpoint and an InprocGroup belong to one rank thread; InprocGroupState is shared.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/combine.h"
#include "comm/inproc_world.h"

namespace cleave::comm {

// A send that waits for its receiver.
struct PostedSend {
    PostedSend(int sender, const Message& sent) : from(sender), message(sent) {}
    const int from;
    const Message message;
    std::atomic<bool> taken{false};  // the data has been copied
};

struct InprocGroupState {
    // One rank's part of the place of one collective. progress: see Need in comm/program.h.
    struct alignas(64) Entry {
        std::atomic<std::uint32_t> progress{0};
        const std::byte* in = nullptr;
        std::byte* out = nullptr;
        std::byte* scratch = nullptr;
        Fingerprint fingerprint;
    };
    // Who has come to a place, all ranks together, for small messages: see InprocSmallCollective.
    struct Meeting {
        alignas(64) std::atomic<int> arrived{0};
        alignas(64) std::atomic<bool> done{false};
    };
    // Places come in chunks, linked as the group goes on, so that any number may be in flight. A chunk that all ranks
    // have passed is used again: a steady state makes none.
    struct Chunk {
        static std::uint64_t places(std::size_t ranks) { return std::max<std::uint64_t>(8, 256 / ranks); }
        explicit Chunk(std::size_t ranks) : entries(places(ranks) * ranks), meetings(places(ranks)) {}
        void reset() {
            for (Entry& entry : entries) entry.progress.store(0, std::memory_order_relaxed);
            for (Meeting& meeting : meetings) {
                meeting.arrived.store(0, std::memory_order_relaxed);
                meeting.done.store(false, std::memory_order_relaxed);
            }
        }
        std::vector<Entry> entries;
        std::vector<Meeting> meetings;
        std::shared_ptr<Chunk> next;  // guarded by chunk_mutex_
    };
    struct Mailbox {
        std::mutex mutex;
        std::deque<std::shared_ptr<PostedSend>> sends;
        std::deque<const Message*> receives;  // in the order of issue; the receiver's own
    };

    explicit InprocGroupState(std::vector<int> ranks)
        : world_ranks(std::move(ranks)),
          places(Chunk::places(world_ranks.size())),
          mailboxes(world_ranks.size()),
          first_(new_chunk()) {
        spare_ = std::make_unique<Chunk>(world_ranks.size());  // ranks are in two at a time
    }
    int size() const { return static_cast<int>(world_ranks.size()); }
    // Each rank asks once. Whoever asks last takes it away, so that chunks all have passed are freed.
    std::shared_ptr<Chunk> first_chunk() {
        const std::lock_guard lock(chunk_mutex_);
        auto chunk = first_;
        if (++asked_ == world_ranks.size()) first_.reset();
        return chunk;
    }
    std::shared_ptr<Chunk> after(const std::shared_ptr<Chunk>& chunk) {
        const std::lock_guard lock(chunk_mutex_);
        if (!chunk->next) chunk->next = new_chunk();
        return chunk->next;
    }

    const std::vector<int> world_ranks;
    const std::uint64_t places;      // of a chunk
    std::vector<Mailbox> mailboxes;  // [receiver]

  private:
    // With chunk_mutex_ held, or before anybody else is here.
    std::shared_ptr<Chunk> new_chunk() {
        if (!spare_) spare_ = std::make_unique<Chunk>(world_ranks.size());
        return {spare_.release(), [this](Chunk* chunk) { retire(std::unique_ptr<Chunk>(chunk)); }};
    }
    // Nobody has it any more. The group's members and operations, which hold chunks, go before the group.
    void retire(std::unique_ptr<Chunk> chunk) {
        chunk->next.reset();
        chunk->reset();
        const std::lock_guard lock(chunk_mutex_);
        spare_ = std::move(chunk);
    }

    std::mutex chunk_mutex_;
    std::unique_ptr<Chunk> spare_;
    std::shared_ptr<Chunk> first_;
    std::size_t asked_ = 0;
};

class InprocEndpoint final : public Endpoint {
  public:
    InprocEndpoint(InprocWorld& world, int rank) : world_(world), rank_(rank) {}
    TransportKind kind() const override { return TransportKind::inproc; }
    int world_rank() const override { return rank_; }
    int world_size() const override { return world_.size(); }
    int looks_before_sleep() const override { return world_.looks_before_sleep(); }
    void pause_between_looks() override { world_.pause(); }
    std::uint32_t announce_sleep() override { return world_.announce_sleep(rank_); }
    void sleep(std::uint32_t announced, Duration limit, const Request& what) override {
        world_.sleep(rank_, announced, limit, what);
    }
    void wait_is_over() override { world_.wake(rank_); }
    void check_failure() override { world_.check_failure(rank_); }
    bool fail(int culprit, const std::string& message) noexcept override {
        const bool first = world_.fail(rank_, culprit, message, nullptr);
        world_.wait_until_untouched(rank_);
        return first;
    }
    Stats stats() const override;
    double move_seconds() const override { return move_seconds_; }

    InprocWorld& world() { return world_; }
    // Of the move being executed: kept, so that a move allocates nothing.
    struct Operands {
        std::vector<Source> sources;
        std::vector<Destination> destinations;
    };
    Operands& operands() { return operands_; }
    void add_move_seconds(Duration time) { move_seconds_ += std::chrono::duration<double>(time).count(); }

  private:
    InprocWorld& world_;
    const int rank_;
    double move_seconds_ = 0;
    Operands operands_;
};

class InprocGroup final : public Group {
  public:
    InprocGroup(InprocEndpoint& endpoint, std::shared_ptr<InprocGroupState> state);
    int rank() const override { return rank_; }
    int size() const override { return state_->size(); }
    int world_rank(int rank) const override { return state_->world_ranks[static_cast<std::size_t>(rank)]; }
    std::unique_ptr<Request> start(const Collective& collective) override;
    std::unique_ptr<Request> start_send(const Message& message) override;
    std::unique_ptr<Request> start_recv(const Message& message) override;
    std::unique_ptr<Group> subgroup(std::span<const int> ranks) override;
    std::string why_not_native(Operation, DType, ReduceOp) const override {
        return "the inproc transport has no library below it";
    }

  private:
    InprocEndpoint& endpoint_;
    const std::shared_ptr<InprocGroupState> state_;
    int rank_ = -1;
    std::uint64_t sequence_ = 0;                      // of the next collective
    std::shared_ptr<InprocGroupState::Chunk> chunk_;  // of the next collective
};

}  // namespace cleave::comm

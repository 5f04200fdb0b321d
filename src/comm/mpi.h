// The mpi transport: ranks are MPI processes, on one host or many.
//
// A collective runs its step program with messages: a remote source is sent by its owner to the executor, a result by
// the executor to its destinations. Before that, ranks that will exchange data exchange fingerprints. A failure is a
// message to all ranks on a communicator of its own; so is the news that a rank has finished.
//
// Thread rule: one rank a process; the main thread only.
#pragma once

#include <mpi.h>

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "comm/last_words.h"
#include "comm/mpi_transfers.h"
#include "comm/transport.h"

namespace cleave::comm {

class MpiEndpoint final : public Endpoint {
  public:
    explicit MpiEndpoint(bool fingerprints);  // collective over all processes
    ~MpiEndpoint() override;
    TransportKind kind() const override { return TransportKind::mpi; }
    int world_rank() const override { return rank_; }
    int world_size() const override { return static_cast<int>(finished_.size()); }
    int looks_before_sleep() const override { return 200; }
    void pause_between_looks() override;
    std::uint32_t announce_sleep() override { return 0; }
    void sleep(std::uint32_t announced, Duration limit, const Request& what) override;
    void wait_is_over() override;
    void check_failure() override;
    bool fail(int culprit, const std::string& message) noexcept override;
    Stats stats() const override { return stats_; }
    double move_seconds() const override { return stats_.move_seconds; }

    bool fingerprints() const { return fingerprints_; }
    bool finished(int rank);
    // Finished so long ago that what it sent before must have been received.
    bool finished_for_good(int rank);
    // `request` was issued: the rank's last operation, should its process be told to end.
    void note_issued(const Request& request) { last_words_.issued(request.describe()); }
    // Tells the others that this rank is through, and waits for theirs. Throws RankFailure if one fails meanwhile.
    void finish();

    void count_sent(Operation operation, std::int64_t bytes) {
        stats_.sent[static_cast<std::size_t>(operation)] += bytes;
    }
    void count_received(Operation operation, std::int64_t bytes) {
        stats_.received[static_cast<std::size_t>(operation)] += bytes;
    }
    void count_control(std::int64_t bytes) { stats_.control_bytes += bytes; }
    void add_move_seconds(Duration time) { stats_.move_seconds += std::chrono::duration<double>(time).count(); }

  private:
    struct News {  // that a rank has failed or finished, as it is sent
        int culprit = -1;
        char text[1000] = {};
    };
    enum Tag { kFailed = 1, kFinished = 2 };
    void tell_all(const News& news, Tag tag);
    void read_news();

    MPI_Comm control_ = MPI_COMM_NULL;
    int rank_ = 0;
    bool fingerprints_;
    std::vector<std::optional<Clock::time_point>> finished_;  // since when
    bool failed_ = false;
    int culprit_ = -1;
    std::string failure_;
    std::list<News> sent_news_;  // lives as long as its sends
    MpiTransfers news_;
    Stats stats_;
    LastWords last_words_;
    int idle_ = 0;  // sleeps in the present wait
};

class MpiGroup final : public Group {
  public:
    explicit MpiGroup(MpiEndpoint& endpoint);  // the world; collective over all processes
    MpiGroup(MpiEndpoint& endpoint, const MpiGroup& parent, std::span<const int> ranks);
    ~MpiGroup() override;
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(world_ranks_.size()); }
    int world_rank(int rank) const override { return world_ranks_[static_cast<std::size_t>(rank)]; }
    std::unique_ptr<Request> start(const Collective& collective) override;
    std::unique_ptr<Request> start_send(const Message& message) override;
    std::unique_ptr<Request> start_recv(const Message& message) override;
    std::unique_ptr<Request> meet(std::span<const int> ranks) override;
    std::unique_ptr<Group> subgroup(std::span<const int> ranks) override;
    std::string why_not_native(Operation operation, DType dtype, ReduceOp op) const override;

    std::span<const int> world_ranks() const { return world_ranks_; }
    MPI_Comm collectives() const { return collectives_; }
    MPI_Comm headers() const { return headers_; }
    MPI_Comm messages() const { return messages_; }

  private:
    void settle();
    std::unique_ptr<Request> noted(std::unique_ptr<Request> request);

    MpiEndpoint& endpoint_;
    MPI_Comm collectives_ = MPI_COMM_NULL;  // step programs, fingerprints and the native collectives
    MPI_Comm headers_ = MPI_COMM_NULL;      // what a point-to-point message is
    MPI_Comm messages_ = MPI_COMM_NULL;     // its data
    int rank_ = 0;
    std::vector<int> world_ranks_;
    std::uint64_t sequence_ = 0;  // of the next collective
    std::vector<int> sent_to_;    // messages so far, by receiver
};

}  // namespace cleave::comm

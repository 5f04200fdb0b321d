#include "comm/mpi.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "comm/mpi_collective.h"
#include "comm/mpi_meeting.h"
#include "comm/mpi_message.h"
#include "comm/mpi_native.h"
#include "comm/mpi_session.h"

namespace cleave::comm {

MpiEndpoint::MpiEndpoint(bool fingerprints)
    : rank_(MpiSession::get().rank()),
      fingerprints_(fingerprints),
      finished_(static_cast<std::size_t>(MpiSession::get().size())),
      last_words_(rank_) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
}

MpiEndpoint::~MpiEndpoint() {
    if (!failed_) MPI_Comm_free(&control_);  // collective; after a failure others may not come
}

void MpiEndpoint::pause_between_looks() {
    std::this_thread::yield();
}

// MPI has no wait with a limit for several requests, so a sleep is a pause that leaves the core to others.
void MpiEndpoint::sleep(std::uint32_t, Duration limit, const Request& what) {
    if (idle_ == 0) last_words_.waiting(what.describe());
    constexpr int kShortSleeps = 4000;
    const auto pause = std::chrono::microseconds(++idle_ < kShortSleeps ? 20 : 200);
    std::this_thread::sleep_for(std::min<Duration>(limit, pause));
}

void MpiEndpoint::wait_is_over() {
    if (idle_ > 0) last_words_.wait_is_over();
    idle_ = 0;
}

void MpiEndpoint::tell_all(const News& news, Tag tag) {
    const News& kept = sent_news_.emplace_back(news);
    for (int r = 0; r < world_size(); ++r)
        if (r != rank_) news_.send(&kept, sizeof(News), r, tag, control_);
}

void MpiEndpoint::read_news() {
    int flag = 1;
    while (true) {
        MPI_Status status;
        check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &flag, &status), "MPI_Iprobe");
        if (flag == 0) return;
        News news;
        check_mpi(
            MPI_Recv(&news, sizeof(News), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, control_, MPI_STATUS_IGNORE),
            "MPI_Recv");
        if (status.MPI_TAG == kFinished) finished_[static_cast<std::size_t>(status.MPI_SOURCE)] = Clock::now();
        if (status.MPI_TAG != kFailed || failed_) continue;
        failed_ = true;
        culprit_ = news.culprit;
        failure_ = news.text;
    }
}

void MpiEndpoint::check_failure() {
    read_news();
    if (failed_)
        throw RankFailure(culprit_, fmt::format("rank {} stops: rank {} failed: {}", rank_, culprit_, failure_));
}

bool MpiEndpoint::fail(int culprit, const std::string& message) noexcept {
    try {
        read_news();
        if (failed_) return false;
        failed_ = true;
        culprit_ = culprit;
        failure_ = message;
        News news;
        news.culprit = culprit;
        std::strncpy(news.text, message.c_str(), sizeof(news.text) - 1);
        tell_all(news, kFailed);
        const auto deadline = Clock::now() + std::chrono::seconds(1);
        while (!news_.done() && Clock::now() < deadline) std::this_thread::yield();
    } catch (const std::exception&) {  // MPI itself is broken; mpirun ends the others when this process ends
    }
    return true;
}

bool MpiEndpoint::finished(int rank) {
    read_news();
    return finished_[static_cast<std::size_t>(rank)].has_value();
}

bool MpiEndpoint::finished_for_good(int rank) {
    // MPI keeps no order between communicators: the news may overtake a rank's last messages.
    constexpr Duration kOvertaking = std::chrono::milliseconds(500);
    return finished(rank) && Clock::now() - *finished_[static_cast<std::size_t>(rank)] > kOvertaking;
}

void MpiEndpoint::finish() {
    finished_[static_cast<std::size_t>(rank_)] = Clock::now();
    tell_all({}, kFinished);
    const auto all = [&] {
        return std::all_of(finished_.begin(), finished_.end(), [](const auto& since) { return since.has_value(); });
    };
    for (int polls = 0; !all() || !news_.done(); ++polls) {
        check_failure();
        if (polls < 1000)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

MpiGroup::MpiGroup(MpiEndpoint& endpoint) : endpoint_(endpoint) {
    for (MPI_Comm* comm : {&collectives_, &headers_, &messages_})
        check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
    world_ranks_.resize(static_cast<std::size_t>(endpoint.world_size()));
    std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
    settle();
}

MpiGroup::MpiGroup(MpiEndpoint& endpoint, const MpiGroup& parent, std::span<const int> ranks) : endpoint_(endpoint) {
    for (const int r : ranks) world_ranks_.push_back(parent.world_rank(r));
    MPI_Group whole = MPI_GROUP_NULL;
    MPI_Group part = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(parent.collectives_, &whole), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(whole, static_cast<int>(ranks.size()), ranks.data(), &part), "MPI_Group_incl");
    // All members have met (MpiMeeting), so nobody is waited for long; if one fails just here, its process ends the
    // others' (MpiSession). The tag keeps the making of different groups by the same ranks apart.
    int tag = static_cast<int>(hash64(std::as_bytes(ranks)) % 30000);
    for (MPI_Comm* comm : {&collectives_, &headers_, &messages_})
        check_mpi(MPI_Comm_create_group(parent.collectives_, part, tag++, comm), "MPI_Comm_create_group");
    MPI_Group_free(&part);
    MPI_Group_free(&whole);
    settle();
}

void MpiGroup::settle() {
    MPI_Comm_rank(collectives_, &rank_);
    sent_to_.assign(world_ranks_.size(), 0);
    for (const MPI_Comm comm : {collectives_, headers_, messages_}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

MpiGroup::~MpiGroup() {
    // Freeing is collective and may wait for others; a group may go away on some ranks only (a failure, or simply an
    // earlier end of its scope), so communicators are left to MPI_Finalize.
}

std::unique_ptr<Request> MpiGroup::noted(std::unique_ptr<Request> request) {
    endpoint_.note_issued(*request);
    return request;
}

std::unique_ptr<Request> MpiGroup::start(const Collective& collective) {
    const std::uint64_t sequence = sequence_++;
    if (collective.program == nullptr)
        return noted(std::make_unique<MpiNative>(endpoint_, *this, sequence, collective));
    return noted(std::make_unique<MpiCollective>(endpoint_, *this, sequence, collective));
}

std::unique_ptr<Request> MpiGroup::start_send(const Message& message) {
    const int number = sent_to_[static_cast<std::size_t>(message.peer)]++;
    return noted(std::make_unique<MpiSend>(endpoint_, *this, message, number));
}

std::unique_ptr<Request> MpiGroup::start_recv(const Message& message) {
    return noted(std::make_unique<MpiRecv>(endpoint_, *this, message));
}

std::unique_ptr<Request> MpiGroup::meet(std::span<const int> ranks) {
    return noted(std::make_unique<MpiMeeting>(endpoint_, *this, ranks));
}

std::unique_ptr<Group> MpiGroup::subgroup(std::span<const int> ranks) {
    return std::make_unique<MpiGroup>(endpoint_, *this, ranks);
}

std::string MpiGroup::why_not_native(Operation operation, DType dtype, ReduceOp op) const {
    return MpiNative::why_not(operation, dtype, op);
}

}  // namespace cleave::comm

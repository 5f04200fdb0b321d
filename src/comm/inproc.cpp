#include "comm/inproc.h"

#include <algorithm>

#include "comm/combine.h"
#include "comm/inproc_collective.h"

namespace cleave::comm {
namespace {

class InprocSend final : public Request {
  public:
    InprocSend(InprocEndpoint& endpoint, InprocGroupState& group, int rank, const Message& message)
        : endpoint_(endpoint),
          peer_(group.world_ranks[static_cast<std::size_t>(message.peer)]),
          posted_(std::make_shared<PostedSend>(rank, message)) {
        {
            auto& mailbox = group.mailboxes[static_cast<std::size_t>(message.peer)];
            const std::lock_guard lock(mailbox.mutex);
            mailbox.sends.push_back(posted_);
        }
        endpoint_.world().ring(peer_);
    }
    bool advance() override { return posted_->taken.load(std::memory_order_acquire); }
    std::string describe() const override { return describe_message("send to", peer_, posted_->message); }
    std::string waiting_for(int& culprit) const override {
        culprit = peer_;
        const std::string status = endpoint_.world().status(peer_);
        return fmt::format("rank {} has not received it{}{}", peer_, status.empty() ? "" : " and ", status);
    }
    void check_possible() const override {
        if (endpoint_.world().finished(peer_) && !posted_->taken.load(std::memory_order_acquire))
            throw RankFailure(peer_, fmt::format("rank {} has finished without receiving rank {}'s {}", peer_,
                                                 endpoint_.world_rank(), describe()));
    }

  private:
    InprocEndpoint& endpoint_;
    const int peer_;  // world rank
    const std::shared_ptr<PostedSend> posted_;
};

class InprocRecv final : public Request {
  public:
    InprocRecv(InprocEndpoint& endpoint, InprocGroupState& group, int rank, const Message& message)
        : endpoint_(endpoint),
          mailbox_(group.mailboxes[static_cast<std::size_t>(rank)]),
          peer_(group.world_ranks[static_cast<std::size_t>(message.peer)]),
          message_(message) {
        mailbox_.receives.push_back(&message_);
    }
    ~InprocRecv() override { std::erase(mailbox_.receives, &message_); }
    bool advance() override {
        if (done_) return true;
        if (!is_next()) return false;
        const auto send = match();
        if (!send) return false;
        std::erase(mailbox_.receives, &message_);
        check_agreement(send->message);
        copy(send->message);
        send->taken.store(true, std::memory_order_seq_cst);  // as in InprocCollective::publish
        endpoint_.world().ring(peer_);
        return done_ = true;
    }
    std::string describe() const override { return describe_message("recv from", peer_, message_); }
    std::string waiting_for(int& culprit) const override {
        culprit = peer_;
        const std::string status = endpoint_.world().status(peer_);
        return fmt::format("rank {} has not sent it{}{}", peer_, status.empty() ? "" : " and ", status);
    }
    void check_possible() const override {
        if (!endpoint_.world().finished(peer_)) return;
        const std::lock_guard lock(mailbox_.mutex);
        if (find() == mailbox_.sends.end())
            throw RankFailure(peer_, fmt::format("rank {} has finished without sending what rank {} waits for in {}",
                                                 peer_, endpoint_.world_rank(), describe()));
    }

  private:
    // A message that arrives between two looks into the mailbox must not go to the later of two receives.
    bool is_next() const {
        const auto same = [&](const Message* m) { return m->peer == message_.peer && m->tag == message_.tag; };
        return *std::find_if(mailbox_.receives.begin(), mailbox_.receives.end(), same) == &message_;
    }
    std::deque<std::shared_ptr<PostedSend>>::iterator find() const {
        return std::find_if(mailbox_.sends.begin(), mailbox_.sends.end(),
                            [&](const auto& s) { return s->from == message_.peer && s->message.tag == message_.tag; });
    }
    std::shared_ptr<PostedSend> match() {
        const std::lock_guard lock(mailbox_.mutex);
        const auto found = find();
        if (found == mailbox_.sends.end()) return nullptr;
        auto send = *found;
        mailbox_.sends.erase(found);
        return send;
    }
    void check_agreement(const Message& sent) const {
        if (sent.count == message_.count && sent.dtype == message_.dtype) return;
        throw RankFailure(
            peer_, fmt::format("ranks {} and {} disagree: rank {} calls {}, rank {} sends {} elements of {}",
                               endpoint_.world_rank(), peer_, endpoint_.world_rank(), describe(), peer_, sent.count,
                               name_of(sent.dtype)));
    }
    void copy(const Message& sent) {
        const InprocWorld::Touching touching(endpoint_.world(), endpoint_.world_rank());
        const auto start = Clock::now();
        copy_bytes(static_cast<std::byte*>(message_.data), static_cast<const std::byte*>(sent.data), sent.bytes(),
                   endpoint_.world().exceeds_cache(2 * sent.bytes()));
        endpoint_.add_move_seconds(Clock::now() - start);
        endpoint_.world().count(endpoint_.world_rank(), Operation::send, peer_, endpoint_.world_rank(), sent.bytes());
    }

    InprocEndpoint& endpoint_;
    InprocGroupState::Mailbox& mailbox_;
    const int peer_;  // world rank
    const Message message_;
    bool done_ = false;
};

}  // namespace

Stats InprocEndpoint::stats() const {
    Stats stats = world_.traffic(rank_);
    // A message is counted once, on its way; it is a send to the one end and a recv to the other.
    std::swap(stats.received[static_cast<std::size_t>(Operation::send)],
              stats.received[static_cast<std::size_t>(Operation::recv)]);
    stats.move_seconds = move_seconds_;
    return stats;
}

InprocGroup::InprocGroup(InprocEndpoint& endpoint, std::shared_ptr<InprocGroupState> state)
    : endpoint_(endpoint), state_(std::move(state)), chunk_(state_->first_chunk()) {
    const auto& ranks = state_->world_ranks;
    rank_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), endpoint.world_rank()) - ranks.begin());
}

std::unique_ptr<Request> InprocGroup::start(const Collective& collective) {
    const std::uint64_t sequence = sequence_++;
    if (sequence > 0 && sequence % state_->places == 0) chunk_ = state_->after(chunk_);
    const std::int64_t bytes = collective.program->total_elements * size_of(collective.dtype);
    if (collective.spec->algorithm == Algorithm::direct && endpoint_.world().is_small(bytes))
        return std::make_unique<InprocSmallCollective>(endpoint_, *state_, chunk_, rank_, sequence, collective);
    return std::make_unique<InprocCollective>(endpoint_, *state_, chunk_, rank_, sequence, collective);
}

std::unique_ptr<Request> InprocGroup::start_send(const Message& message) {
    return std::make_unique<InprocSend>(endpoint_, *state_, rank_, message);
}

std::unique_ptr<Request> InprocGroup::start_recv(const Message& message) {
    return std::make_unique<InprocRecv>(endpoint_, *state_, rank_, message);
}

std::unique_ptr<Group> InprocGroup::subgroup(std::span<const int> ranks) {
    std::vector<int> world;
    for (const int r : ranks) world.push_back(world_rank(r));
    return std::make_unique<InprocGroup>(endpoint_, endpoint_.world().group(endpoint_.world_rank(), world));
}

}  // namespace cleave::comm

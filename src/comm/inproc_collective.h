// One rank's execution of a step program on its peers' memory: InprocCollective takes the rank's own steps,
// InprocSmallCollective leaves all steps of all ranks to whoever arrives last.
// Thread rule: belongs to one rank thread; shares InprocGroupState::Entry and Meeting with the others.
#pragma once

#include "comm/combine.h"
#include "comm/inproc.h"

namespace cleave::comm {

// What both have in common: the place, where this rank publishes itself, and the moving.
class InprocOperation : public Request {
  public:
    InprocOperation(InprocEndpoint& endpoint, InprocGroupState& group, std::shared_ptr<InprocGroupState::Chunk> chunk,
                    int rank, std::uint64_t sequence, const Collective& call);
    ~InprocOperation() override;
    std::string describe() const override { return to_string(own().fingerprint) + of_ranks(group_.world_ranks); }

  protected:
    using Entry = InprocGroupState::Entry;
    Entry& entry(int rank) const { return first_entry_[rank]; }
    Entry& own() const { return entry(rank_); }
    InprocGroupState::Meeting& meeting() const { return meeting_; }
    std::uint32_t progress_of(int rank) const { return entry(rank).progress.load(std::memory_order_acquire); }
    int world_rank(int rank) const { return group_.world_ranks[static_cast<std::size_t>(rank)]; }
    InprocWorld& world() const { return endpoint_.world(); }
    const Collective& call() const { return call_; }

    void publish(std::uint32_t progress);
    // Tells the other ranks `list` (of the group) that something has changed.
    void ring(const std::vector<int>& list) const;
    void check_agreement(int other) const;
    void execute(const Step& step);        // this rank's own
    void execute(const Program& program);  // all ranks', in one go
    // " has not arrived", what is known of the rank, and the first culprit.
    void describe_lack(int rank, const char* what, std::string& text, int& culprit) const;
    void check_not_finished(int rank, std::uint32_t needed) const;

  private:
    template <class F>
    void touching_others(F&& f);
    void execute(const Move& move);

    InprocEndpoint& endpoint_;
    InprocGroupState& group_;
    const std::shared_ptr<InprocGroupState::Chunk> chunk_;
    Entry* const first_entry_;
    InprocGroupState::Meeting& meeting_;
    const int rank_;
    const Collective call_;
    ScratchPool::Block scratch_;
    bool streaming_;
};

class InprocCollective final : public InprocOperation {
  public:
    using InprocOperation::InprocOperation;
    bool advance() override;
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    const std::vector<Need>& current_needs() const;
    bool met(const std::vector<Need>& needs);
    bool arrived_ = false;
    std::size_t step_ = 0;
};

// The last rank to arrive does everything, so ranks meet once instead of twice: where a message is so small that
// meeting costs more than moving. Bits are the same: the moves are.
class InprocSmallCollective final : public InprocOperation {
  public:
    using InprocOperation::InprocOperation;
    bool starts_at_issue() const override { return true; }
    bool advance() override;
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    void do_everything();
    bool arrived_ = false;
};

}  // namespace cleave::comm

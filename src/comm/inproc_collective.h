// One rank's execution of a step program on its peers' memory.
// Thread rule: belongs to one rank thread; shares InprocGroupState::Entry with the others.
#pragma once

#include "comm/combine.h"
#include "comm/inproc.h"

namespace cleave::comm {

class InprocCollective final : public Request {
  public:
    InprocCollective(InprocEndpoint& endpoint, InprocGroupState& group, std::shared_ptr<InprocGroupState::Chunk> chunk,
                     int rank, std::uint64_t sequence, const Collective& call);
    ~InprocCollective() override;
    bool advance() override;
    std::string describe() const override { return to_string(own().fingerprint); }
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    using Entry = InprocGroupState::Entry;
    Entry& entry(int rank) const { return first_entry_[rank]; }
    Entry& own() const { return entry(rank_); }
    const std::vector<Need>& current_needs() const;
    bool met(const std::vector<Need>& needs);
    void check_agreement(int other) const;
    void publish(std::uint32_t progress);
    void take(const Step& step);
    void execute(const Move& move);

    InprocEndpoint& endpoint_;
    InprocGroupState& group_;
    const std::shared_ptr<InprocGroupState::Chunk> chunk_;
    Entry* const first_entry_;
    const int rank_;
    const Collective call_;
    ScratchPool::Block scratch_;
    std::size_t step_ = 0;
    bool streaming_;
    std::vector<Source> sources_;            // of the move being executed
    std::vector<Destination> destinations_;  // likewise
};

}  // namespace cleave::comm

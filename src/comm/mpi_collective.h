// One rank's execution of a step program with MPI messages.
//
// Each phase has two rounds. Sources: owners send remote sources to their executors. Results: executors combine and
// send to remote destinations. Receives of results are issued only after this rank's own sources have left, so a phase
// that works in place never sends and receives in one memory at once. Thread rule: belongs to one rank.
#pragma once

#include "comm/combine.h"
#include "comm/mpi_agreement.h"

namespace cleave::comm {

class MpiCollective final : public Request {
  public:
    MpiCollective(MpiEndpoint& endpoint, const MpiGroup& group, std::uint64_t sequence, const Collective& call);
    ~MpiCollective() override;
    bool advance() override;
    std::string describe() const override { return to_string(agreement_.own()) + of_ranks(group_.world_ranks()); }
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    enum class Round { sources, results };
    // A move this rank executes in the present phase, with what came for it.
    struct Execution {
        const Move* move;
        std::vector<Source> sources;
        std::vector<Destination> destinations;
        std::byte* result;  // where remote destinations are sent from; null if there are none
    };
    std::byte* place(const Slot& slot) const;
    std::int64_t bytes(const Move& move, const Slot& slot) const;
    std::byte* stage(std::int64_t bytes);
    void begin_sources();
    void begin_execution(const Move& move);
    void begin_results();
    void execute(const Execution& execution);
    void end_phase();
    std::vector<int> partners() const;

    MpiEndpoint& endpoint_;
    const MpiGroup& group_;
    const Collective call_;
    const std::uint64_t sequence_;
    MpiAgreement agreement_;
    bool agreed_ = false;
    ScratchPool::Block scratch_;
    std::vector<ScratchPool::Block> staged_;  // of the present phase
    std::size_t phase_ = 0;
    Round round_ = Round::sources;
    bool begun_ = false;
    std::vector<Execution> executions_;
    MpiTransfers transfers_;
};

}  // namespace cleave::comm

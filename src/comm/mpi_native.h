// A collective handed whole to the MPI library, in its own algorithm and order of sums: for comparison, and for who
// names it. Runs blocking, inside wait(), once every rank has arrived. Its bytes cannot be counted. Thread rule:
// belongs to one rank.
#pragma once

#include "comm/mpi_agreement.h"

namespace cleave::comm {

class MpiNative final : public Request {
  public:
    MpiNative(MpiEndpoint& endpoint, const MpiGroup& group, std::uint64_t sequence, const Collective& call);
    // Empty if the operation can be done.
    static std::string why_not(Operation operation, DType dtype, ReduceOp op);
    bool advance() override;
    std::string describe() const override { return to_string(agreement_.own()) + of_ranks(group_.world_ranks()); }
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    void call_library();
    void reduce_library(const void* in, void* out, MPI_Datatype type) const;

    MpiEndpoint& endpoint_;
    const MpiGroup& group_;
    const Spec spec_;  // a copy: the caller's does not outlive the call
    const Collective call_;
    MpiAgreement agreement_;
};

}  // namespace cleave::comm

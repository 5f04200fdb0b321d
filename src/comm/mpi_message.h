// Point-to-point messages over MPI: a header that says what comes, then the data, which is taken only once the header
// agrees with the receiver. Headers keep the order of (sender, tag); data is matched by a number in its header.
// Thread rule: belongs to one rank.
#pragma once

#include "comm/mpi_agreement.h"

namespace cleave::comm {

struct MessageHeader {
    std::int64_t count;
    DType dtype;
    int number;                  // of this message among those from the sender to the receiver
    std::uint64_t log_sequence;  // of the sender's last log line
};

class MpiSend final : public Request {
  public:
    MpiSend(MpiEndpoint& endpoint, const MpiGroup& group, const Message& message, int number);
    bool advance() override { return transfers_.done(); }
    std::string describe() const override;
    std::string waiting_for(int& culprit) const override;

  private:
    MpiEndpoint& endpoint_;
    const MpiGroup& group_;
    const Message message_;
    MessageHeader header_;
    MpiTransfers transfers_;
};

class MpiRecv final : public Request {
  public:
    MpiRecv(MpiEndpoint& endpoint, const MpiGroup& group, const Message& message);
    bool advance() override;
    std::string describe() const override;
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    void check_agreement() const;

    MpiEndpoint& endpoint_;
    const MpiGroup& group_;
    const Message message_;
    MessageHeader header_{};
    bool header_read_ = false;
    MpiTransfers transfers_;
};

}  // namespace cleave::comm

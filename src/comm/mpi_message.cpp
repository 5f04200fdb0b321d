#include "comm/mpi_message.h"

#include "base/error.h"
#include "base/log.h"

namespace cleave::comm {

MpiSend::MpiSend(MpiEndpoint& endpoint, const MpiGroup& group, const Message& message, int number)
    : endpoint_(endpoint),
      group_(group),
      message_(message),
      header_{message.count, message.dtype, number, last_sequence()} {
    const bool empty = message.count == 0;
    transfers_.send(&header_, sizeof(header_), message.peer, message.tag, group.headers(), empty);
    if (!empty) transfers_.send(message.data, message.bytes(), message.peer, number, group.messages(), true);
    if (message.peer != group.rank()) endpoint_.count_sent(Operation::send, message.bytes());
    endpoint_.count_control(sizeof(header_));
}

std::string MpiSend::describe() const {
    return describe_message("send to", group_.world_rank(message_.peer), message_);
}

std::string MpiSend::waiting_for(int& culprit) const {
    return absence(endpoint_, group_, {message_.peer}, "has not received it", culprit);
}

MpiRecv::MpiRecv(MpiEndpoint& endpoint, const MpiGroup& group, const Message& message)
    : endpoint_(endpoint), group_(group), message_(message) {
    transfers_.receive(&header_, sizeof(header_), message.peer, message.tag, group.headers());
}

void MpiRecv::check_agreement() const {
    if (header_.count == message_.count && header_.dtype == message_.dtype) return;
    const int me = endpoint_.world_rank();
    const int peer = group_.world_rank(message_.peer);
    throw RankFailure(peer, fmt::format("ranks {} and {} disagree: rank {} calls {}, rank {} sends {} elements of {}",
                                        me, peer, me, describe(), peer, header_.count, name_of(header_.dtype)));
}

bool MpiRecv::advance() {
    if (!transfers_.done()) return false;
    if (header_read_) return true;
    header_read_ = true;
    observe_sequence(header_.log_sequence);
    check_agreement();
    if (message_.count == 0) return true;
    transfers_.receive(message_.data, message_.bytes(), message_.peer, header_.number, group_.messages());
    if (message_.peer != group_.rank()) endpoint_.count_received(Operation::recv, message_.bytes());
    return transfers_.done();
}

std::string MpiRecv::describe() const {
    return describe_message("recv from", group_.world_rank(message_.peer), message_);
}

std::string MpiRecv::waiting_for(int& culprit) const {
    return absence(endpoint_, group_, {message_.peer}, "has not sent it", culprit);
}

void MpiRecv::check_possible() const {
    if (!header_read_) check_not_finished(endpoint_, group_, {message_.peer}, describe());
}

}  // namespace cleave::comm

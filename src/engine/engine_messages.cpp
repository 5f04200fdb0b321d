// Messages between two ranks (engine/engine.h): checked, accounted and recorded for both engines.
#include "engine/engine.h"

namespace cleave {

std::shared_ptr<PendingMessage> Engine::start_send(const Tensor& tensor, const Peer& to) {
    return start_message(tensor, true, to);
}

std::shared_ptr<PendingMessage> Engine::start_receive(const Tensor& tensor, const Peer& from) {
    return start_message(tensor, false, from);
}

namespace {

constexpr std::string_view message_name(bool sends) {
    return sends ? "send" : "recv";
}

}  // namespace

std::shared_ptr<PendingMessage> Engine::start_message(const Tensor& tensor, bool sends, const Peer& peer) {
    CLEAVE_CHECK(tensor.view().dense(), "a message of a strided tensor {}", tensor.name());
    const int own = mesh_.coordinate(rank_, peer.axis);
    CLEAVE_CHECK(peer.coordinate != own && peer.coordinate >= 0 && peer.coordinate < mesh_.size(peer.axis),
                 "a message of {} between {} and {} along {}", tensor.name(), own, peer.coordinate,
                 mesh_.name(peer.axis));
    const int rank = mesh_.group(rank_, {peer.axis})[static_cast<std::size_t>(peer.coordinate)];
    const std::int64_t number = exchanges_++;
    const double begin = trace_.now();
    auto token = start_message(tensor, sends, rank, peer.tag);
    if (trace_.on())
        record({EventType::issue,
                std::string(message_name(sends)),
                fmt::format("{} #{}", tensor.name(), number),
                sends ? tensor.view().bytes() : 0,
                0,
                0,
                begin,
                trace_.now(),
                {},
                fmt::format("{} {}={}", sends ? "to" : "from", mesh_.name(peer.axis), peer.coordinate)});
    return std::make_shared<PendingMessage>(tensor, sends, std::move(token), number);
}

Tensor Engine::finish(const std::shared_ptr<PendingMessage>& pending) {
    Tensor tensor = std::exchange(pending->tensor_, {});
    CLEAVE_CHECK(tensor, "a message was finished twice");
    const double begin = trace_.now();
    complete_message(pending->token_);
    if (trace_.on())
        record({EventType::wait, std::string(message_name(pending->sends_)),
                fmt::format("{} #{}", tensor.name(), pending->number_), 0, 0, 0, begin, trace_.now()});
    pending->token_.reset();
    return tensor;
}

}  // namespace cleave

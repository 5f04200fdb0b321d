#include "comm/transport.h"

#include <fmt/format.h>

namespace cleave::comm {

std::string describe_message(const char* what, int peer, const Message& m) {
    return fmt::format("{} rank {}, tag {} ({}, {} elements)", what, peer, m.tag, name_of(m.dtype), m.count);
}

}  // namespace cleave::comm

// Texts of unequal lengths from every rank to rank 0.
// Thread rule: called by every rank of `world`.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace cleave {

// On rank 0 every rank's text in rank order, elsewhere nothing.
std::vector<std::string> gather_text(comm::Communicator& world, const std::string& text);

}  // namespace cleave

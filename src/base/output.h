// Results, not logs: what a command prints on standard output.
// Thread rule: one thread at a time.
#pragma once

#include <string_view>

namespace cleave {

// Throws UserError where standard output cannot be written, or what was written to it before was lost.
void print(std::string_view text);

}  // namespace cleave

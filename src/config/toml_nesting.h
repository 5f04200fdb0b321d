// How deep the values and dotted keys of a TOML text are nested, found without building any. The TOML library takes a
// key of any number of parts, and a recursion as deep as that ends the program.
// Thread rule: a pure function.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace cleave {

inline constexpr std::size_t kMostTomlNesting = 16;  // a run file has 2: [section] and key

// The first line, counted from 1, where brackets are open, or a key has dots, beyond kMostTomlNesting; none where all
// is flat enough. The text need not be valid.
std::optional<std::size_t> too_deep_line(std::string_view text);

}  // namespace cleave

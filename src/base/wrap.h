// Text for a person: broken into lines.
// Thread rule: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace cleave {

// `text` broken at spaces into lines of at most `columns` characters; every line but the first begins with `indent`,
// which counts, and the first is taken to stand behind as many characters.
std::string wrapped(std::string_view text, std::string_view indent, std::size_t columns);

}  // namespace cleave

// Regular expressions for tests. std::regex takes four seconds to compile, so that only pattern.cpp includes it.
#pragma once

#include <string>
#include <vector>

namespace cleave::test {

using Groups = std::vector<std::string>;  // of one match: the whole of it, then what each (...) took

// All matches in `text`, in order; `pattern` is in std::regex's default syntax.
std::vector<Groups> matches(const std::string& text, const std::string& pattern);

}  // namespace cleave::test

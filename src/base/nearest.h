// For messages about misspelt words.
// Thread rule: a pure function.
#pragma once

#include <span>
#include <string_view>

namespace cleave {

// The word nearest to `word` by edit distance, upper and lower case alike, where it is near enough to be meant; else
// empty.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

}  // namespace cleave

// General categories as the Hugging Face library's engine has them (Unicode 16): what PCRE2's tables (Unicode 14) know
// and what came since. Thread rule: a pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cleave {

// The inside of a PCRE2 class with the members of "L", "Lu", "N", ...; none where there is no such category, or where
// its members cannot be written so.
std::optional<std::string> category_members(std::string_view name);

}  // namespace cleave

// Unicode normal form C exactly as the Hugging Face library has it, whose tables are those of Unicode 9: what came
// later is to it an unknown character that neither combines nor is reordered. The only file with utf8proc.
// Thread rule: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace cleave {

// `text` is UTF-8. Returns `text` itself where it is its own normal form at a glance, else a view of `storage`.
std::string_view normal_form_c(std::string_view text, std::string& storage);

}  // namespace cleave

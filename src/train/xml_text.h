// Text in XML.
// Thread rule: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace cleave {

// Its marks escaped, and what XML cannot hold (control characters, bytes that are no UTF-8) replaced.
std::string xml_text(std::string_view text);

}  // namespace cleave

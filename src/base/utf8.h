// UTF-8 (RFC 3629), strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cleave {

struct Utf8Step {
    char32_t code_point;  // U+FFFD where not valid
    std::size_t length;   // bytes to go on; 1 where not valid
    bool valid;
};

// The code point that starts at byte `at` (< text.size()).
Utf8Step utf8_step(std::string_view text, std::size_t at);
void append_utf8(std::string& out, char32_t code_point);
std::string to_utf8(char32_t code_point);
bool is_utf8(std::string_view text);

}  // namespace cleave

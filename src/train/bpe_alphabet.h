// The byte-level alphabet of GPT-2: in tokenizer.json each byte of a token stands as one printable character. Bytes
// that are printable in Latin-1 stand for themselves, the other 68, in rising order, as U+0100, U+0101, ... Thread
// rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cleave {

// The bytes that `token` (UTF-8) stands for; none where a character is not of the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view token);

}  // namespace cleave

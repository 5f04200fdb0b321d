#include "train/bpe_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace cleave {
namespace {

constexpr std::size_t kCharacters = 256 + 68;
constexpr int kNoByte = -1;

constexpr bool stands_for_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<int, kCharacters> bytes_by_character() {
    std::array<int, kCharacters> bytes{};
    std::size_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const auto at = static_cast<std::size_t>(byte);
        bytes[at] = stands_for_itself(byte) ? byte : kNoByte;
        if (!stands_for_itself(byte)) bytes[next++] = byte;
    }
    return bytes;
}

constexpr auto kBytes = bytes_by_character();
static_assert(kBytes.back() == 0xAD && kBytes[0x120] == ' ');

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view token) {
    std::string bytes;
    for (std::size_t at = 0; at < token.size();) {
        const Utf8Step step = utf8_step(token, at);
        if (!step.valid || step.code_point >= kCharacters || kBytes[step.code_point] == kNoByte) return std::nullopt;
        bytes += static_cast<char>(kBytes[step.code_point]);
        at += step.length;
    }
    return bytes;
}

}  // namespace cleave

#include "base/utf8.h"

#include "base/error.h"

namespace cleave {
namespace {

constexpr Utf8Step kInvalid = {0xFFFD, 1, false};

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(at);
    if (lead < 0x80) return {lead, 1, true};
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return kInvalid;
    char32_t code_point = lead & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(at + i) & 0xC0u) != 0x80u) return kInvalid;
        code_point = code_point << 6 | (byte(at + i) & 0x3Fu);
    }
    const char32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    if (code_point < least || surrogate || code_point > 0x10FFFF) return kInvalid;
    return {code_point, length, true};
}

void append_utf8(std::string& out, char32_t code_point) {
    CLEAVE_CHECK(code_point <= 0x10FFFF);
    const auto put = [&](char32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
    if (code_point < 0x80) {
        put(code_point);
        return;
    }
    const int continuations = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
    constexpr char32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    put(kLead[continuations] | code_point >> (6 * continuations));
    for (int i = continuations - 1; i >= 0; --i) put(0x80u | (code_point >> (6 * i) & 0x3Fu));
}

std::string to_utf8(char32_t code_point) {
    std::string out;
    append_utf8(out, code_point);
    return out;
}

bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (!step.valid) return false;
        at += step.length;
    }
    return true;
}

}  // namespace cleave

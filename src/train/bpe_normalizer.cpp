#include "train/bpe_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/utf8.h"

namespace cleave {
namespace {

struct CharacterRange {
    char32_t first;
    char32_t last;
};

// Characters later than Unicode 9 with a combining class, or (U+11930) that are the second half of a composition.
constexpr std::array<CharacterRange, 37> kLater = {{
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
}};

bool is_later(char32_t c) {
    if (c < kLater.front().first) return false;
    const auto* at = std::upper_bound(kLater.begin(), kLater.end(), c,
                                      [](char32_t value, const CharacterRange& range) { return value < range.first; });
    return c <= (at - 1)->last;
}

// Everything below U+0300 is a normal form whatever stands around it.
bool needs_no_look(std::string_view text) {
    constexpr unsigned char kFirstCombining = 0xCC;  // the lead byte of U+0300
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < kFirstCombining; });
}

void append_normal(std::string_view text, std::string& out) {
    if (text.empty()) return;
    CLEAVE_CHECK(text.size() < std::numeric_limits<utf8proc_ssize_t>::max());
    utf8proc_uint8_t* result = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, std::free);
    if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    CLEAVE_CHECK(length >= 0, "{}", utf8proc_errmsg(length));
    out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
}

}  // namespace

std::string_view normal_form_c(std::string_view text, std::string& storage) {
    if (needs_no_look(text)) return text;
    storage.clear();
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (is_later(step.code_point)) {
            append_normal(text.substr(begin, at - begin), storage);
            storage += text.substr(at, step.length);
            begin = at + step.length;
        }
        at += step.length;
    }
    append_normal(text.substr(begin), storage);
    return storage;
}

}  // namespace cleave

// Counts and numbers as messages write them.
// Thread rule: pure functions.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

namespace cleave {

// "1 rank", "2 ranks"; `many` where the plural is more than an s.
template <std::integral Count>
std::string counted(Count count, std::string_view one, std::string_view many = {}) {
    if (count == 1) return fmt::format("1 {}", one);
    return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

// As "{}" writes it, but for the sign of what is no number, which means nothing.
inline std::string real_text(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

// A message is for reading, whatever was found.
inline std::string shortened(const std::string& text) {
    constexpr std::size_t kShown = 200;
    return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

}  // namespace cleave

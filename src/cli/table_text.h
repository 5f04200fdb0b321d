// Tables that fit into 80 columns. Thread rule: pure functions.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace cleave::cli {

inline constexpr std::size_t kTableColumns = 80;

// Five digits or more in at most seven characters, up to 9999999.
inline std::string short_number(double x) {
    return x < 1000 ? fmt::format("{:.2f}", x) : x < 10000 ? fmt::format("{:.1f}", x) : fmt::format("{:.0f}", x);
}

// One line a row, each column as wide as its widest cell; where that is more than 80 columns, columns move together,
// and if that is not enough, the first cell of every row stands on a line of its own.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t indent);

}  // namespace cleave::cli

// Numbers for tables that fit into 80 columns. Thread rule: a pure function.
#pragma once

#include <fmt/format.h>

#include <string>

namespace cleave::cli {

// Five digits or more in at most seven characters, up to 9999999.
inline std::string short_number(double x) {
    return x < 1000 ? fmt::format("{:.2f}", x) : x < 10000 ? fmt::format("{:.1f}", x) : fmt::format("{:.0f}", x);
}

}  // namespace cleave::cli

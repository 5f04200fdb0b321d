#include "cli/table_text.h"

#include <algorithm>
#include <numeric>

namespace cleave::cli {

namespace {

constexpr std::size_t kBetween = 2;

std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths, std::size_t from,
                 std::size_t indent, std::size_t between) {
    std::string text(indent, ' ');
    for (std::size_t c = from; c < cells.size(); ++c)
        text += fmt::format("{:<{}}", cells[c], c + 1 == cells.size() ? 0 : widths[c] + between);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t indent) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows)
        for (std::size_t c = 0; c < row.size(); ++c) {
            if (c == widths.size()) widths.push_back(0);
            widths[c] = std::max(widths[c], row[c].size());
        }
    const auto columns = [&](std::size_t between) {
        return std::accumulate(widths.begin(), widths.end(), indent + between * (widths.size() - 1));
    };
    const std::size_t between = columns(kBetween) <= kTableColumns ? kBetween : 1;
    std::string text;
    for (const auto& row : rows)
        text += columns(between) <= kTableColumns ? line(row, widths, 0, indent, between)
                                                  : fmt::format("{:{}}{}\n{}", "", indent, row.front(),
                                                                line(row, widths, 1, indent + 2 * kBetween, kBetween));
    return text;
}

}  // namespace cleave::cli

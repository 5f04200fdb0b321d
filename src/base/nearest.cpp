#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace cleave {

namespace {

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
    std::string_view best;
    // A third of the letters may be wrong: "lerning_rate" is meant to be a word, "x" is not.
    std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 2) + 1;
    std::vector<std::size_t> row;
    for (std::string_view candidate : words) {
        row.resize(candidate.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 1; i <= word.size(); ++i) {
            std::size_t diagonal = row[0]++;
            for (std::size_t j = 1; j <= candidate.size(); ++j) {
                const std::size_t replace = diagonal + (lower(word[i - 1]) != lower(candidate[j - 1]));
                diagonal = row[j];
                row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
            }
        }
        if (row.back() < best_distance && row.back() < candidate.size()) {
            best = candidate;
            best_distance = row.back();
        }
    }
    return best;
}

}  // namespace cleave

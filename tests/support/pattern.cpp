#include "support/pattern.h"

#include <regex>

namespace cleave::test {

std::vector<Groups> matches(const std::string& text, const std::string& pattern) {
    const std::regex regex(pattern);
    std::vector<Groups> all;
    for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
        all.emplace_back(match->begin(), match->end());
    return all;
}

}  // namespace cleave::test

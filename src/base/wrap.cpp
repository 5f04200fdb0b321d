#include "base/wrap.h"

#include <algorithm>

namespace cleave {

std::string wrapped(std::string_view text, std::string_view indent, std::size_t columns) {
    std::string out;
    std::size_t at = indent.size();
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t space = std::min(text.find(' ', begin), text.size());
        const std::string_view word = text.substr(begin, space - begin);
        begin = space + 1;
        if (!out.empty() && at + 1 + word.size() > columns) {
            out += '\n';
            out += indent;
            at = indent.size();
        } else if (!out.empty()) {
            out += ' ';
            ++at;
        }
        out += word;
        at += word.size();
    }
    return out;
}

}  // namespace cleave

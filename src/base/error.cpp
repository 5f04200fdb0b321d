#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace cleave {

std::string printable(const std::string& text) {
    std::string shown;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
        if (control)
            shown += fmt::format("\\x{:02x}", byte);
        else
            shown += c;
    }
    return shown;
}

void broken_invariant(const char* file, int line, const char* condition, const std::string& detail) {
    std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, condition, detail.empty() ? "" : ": ",
                 detail.c_str());
    std::fflush(stderr);
    std::abort();
}

}  // namespace cleave

#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace cleave {

void broken_invariant(const char* file, int line, const char* condition, const std::string& detail) {
    std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, condition, detail.empty() ? "" : ": ",
                 detail.c_str());
    std::fflush(stderr);
    std::abort();
}

}  // namespace cleave

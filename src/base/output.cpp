#include "base/output.h"

#include <cstdio>

#include "base/error.h"

namespace cleave {

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0 ||
        std::ferror(stdout) != 0)
        throw UserError("cannot write the result to standard output");
}

}  // namespace cleave

#include "base/shape.h"

#include <fmt/ranges.h>

namespace cleave {

std::string to_string(const Shape& shape) {
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace cleave

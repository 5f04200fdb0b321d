// Time as it passes, for differences: seconds since some moment, of a clock that is never set.
#pragma once

#include <chrono>

namespace cleave {

inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace cleave

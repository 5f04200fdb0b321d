// What this process holds of the machine's memory. Linux.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace cleave::test {

inline std::int64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::int64_t size = 0;
    std::int64_t resident = 0;
    file >> size >> resident;
    return resident * sysconf(_SC_PAGE_SIZE);
}

}  // namespace cleave::test

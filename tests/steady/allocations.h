// Counts what this program asks of malloc, calloc, realloc, aligned_alloc and operator new (which calls malloc), in
// every library that it loads: the program's own definitions stand before glibc's. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cleave::test {

// Requests of this size and more count as tensors or scratch. The tape's records, events, file names, lines of metrics
// and the communicator's requests are below it.
inline constexpr std::size_t kLargeBytes = 4096;

struct Allocations {
    std::int64_t large = 0;       // requests of at least kLargeBytes
    std::int64_t small = 0;       // all others
    std::int64_t last_large = 0;  // bytes of the last large one
};
Allocations allocations();

}  // namespace cleave::test

// Memory for operands that a benchmark makes itself: zeroed, 64-byte aligned, with a cache line to spare.
// Thread rule: values.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace cleave::bench {

struct Free {
    void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

inline Buffer buffer(std::int64_t bytes) {
    Buffer b(std::aligned_alloc(64, static_cast<std::size_t>((bytes + 127) / 64 * 64)));
    std::memset(b.get(), 0, static_cast<std::size_t>(bytes));
    return b;
}

}  // namespace cleave::bench

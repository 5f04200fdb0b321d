// Memory for operands that a benchmark makes itself: zeroed, 64-byte aligned, with a cache line to spare; in large
// pages, as a rank's arena. Thread rule: values.
#pragma once

#include <sys/mman.h>

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
    constexpr std::int64_t kLargePage = 2 << 20;
    const std::int64_t unit = bytes < kLargePage ? 64 : kLargePage;
    const auto size = static_cast<std::size_t>((bytes + 64 + unit - 1) / unit * unit);
    Buffer b(std::aligned_alloc(static_cast<std::size_t>(unit), size));
    if (unit == kLargePage) madvise(b.get(), size, MADV_HUGEPAGE);  // advice only: its failure is none
    std::memset(b.get(), 0, static_cast<std::size_t>(bytes));
    return b;
}

}  // namespace cleave::bench

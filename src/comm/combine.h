// Combining k sources into m destinations, element by element, in the canonical order of sums: a balanced binary tree
// over the sources, neighbours first, ((0+1)+(2+3))+((4+5)+(6+7)); for other k split at the largest power of two below
// k. bf16 is combined in f32 and rounded once, where it is stored as bf16.
//
// A destination may be the same memory as a source (in place), but not overlap one otherwise.
// Thread rule: pure functions of the memory they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "comm/types.h"

namespace cleave::comm {

// `wide`: elements are of the accumulator type (f32 for bf16); for other types there is no difference.
struct Source {
    const std::byte* data;
    bool wide;
};
struct Destination {
    std::byte* data;
    bool wide;
};

struct Combination {
    DType dtype;
    ReduceOp op;
    int divide_by;   // 1: no division
    bool streaming;  // store past the caches: for results that do not fit there
};

void combine(const Combination& how, std::span<const Source> sources, std::span<const Destination> destinations,
             std::int64_t count);

// One copy of `bytes`; streaming stores where asked and the machine has them.
void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, bool streaming);

}  // namespace cleave::comm

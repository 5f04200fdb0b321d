// What attention's forward and backward share: the packing of strided rows into tiles of whole
// vectors, and the cut of a thread's scratch into arrays.
// Thread rule: pure functions on the caller's memory.
#pragma once

#include <limits>

#include "kernels/simd_math.h"
#include "kernels/tile.h"
#include "kernels/view.h"

namespace cleave::kernels {

inline constexpr std::int64_t kQueryBlock = 16;  // rows of a tile of scores
inline constexpr std::int64_t kKeyBlock = 64;    // its columns

// Rounded up to whole vectors of A.
template <class A>
constexpr std::int64_t padded(std::int64_t n) {
    return (n + simd::kLanes<A> - 1) / simd::kLanes<A> * simd::kLanes<A>;
}

// One head of one sample of a strided tensor [b t h d]: rows of `depth` elements.
template <class T>
struct HeadRows {
    HeadRows(const View& view, std::int64_t b, std::int64_t h)
        : data(view.as<T>() + b * view.strides[0] + h * view.strides[2]),
          stride(view.strides[1]),
          depth(view.shape[3]) {}
    T* row(std::int64_t t) const { return data + t * stride; }

    T* data;
    std::int64_t stride;
    std::int64_t depth;
};

// Rows [first, first + count) as rows of whole vectors, zero beyond depth. At the tensor's own strides they would fall
// on few sets of the cache.
template <class T, class A>
void pack_rows(const HeadRows<T>& from, std::int64_t first, std::int64_t count, A* to) {
    const std::int64_t stride = padded<A>(from.depth);
    for (std::int64_t r = 0; r < count; ++r)
        simd::for_vectors<A>(0, from.depth, [&](std::int64_t d, auto live) {
            simd::store(to + r * stride + d, simd::load(from.row(first + r) + d, live));
        });
}

// to[d, r] = row first + r, element d, for r in [0, count); to[d] has `stride` >= padded count elements, zero beyond
// count.
template <class T, class A>
void pack_transposed(const HeadRows<T>& from, std::int64_t first, std::int64_t count, std::int64_t stride, A* to) {
    constexpr int kLanes = simd::kLanes<A>;
    for (std::int64_t r = 0; r < count; r += kLanes)
        simd::for_vectors<A>(0, from.depth, [&](std::int64_t d, auto live) {
            simd::Vec<A> square[kLanes];
            for (int i = 0; i < kLanes; ++i)
                square[i] = r + i < count ? simd::load(from.row(first + r + i) + d, live) : simd::Vec<A>{};
            simd::transpose<A>(square);
            for (int i = 0; i < live; ++i) simd::store(to + (d + i) * stride + r, square[i]);
        });
}

// Cuts a thread's scratch into 64-byte aligned arrays; on a null pointer it only counts.
class Scratch {
  public:
    explicit Scratch(void* begin) : begin_(static_cast<std::byte*>(begin)) {}
    template <class A>
    A* take(std::int64_t count) {
        A* array = begin_ ? reinterpret_cast<A*>(begin_ + used_) : nullptr;
        used_ += (count * static_cast<std::int64_t>(sizeof(A)) + 63) / 64 * 64;
        return array;
    }
    std::int64_t used() const { return used_; }

  private:
    std::byte* begin_;
    std::int64_t used_ = 0;
};

}  // namespace cleave::kernels

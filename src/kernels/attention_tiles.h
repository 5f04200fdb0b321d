// What attention's forward and backward share: the packing of strided rows into the factors of tiles, the tile of
// probabilities as a factor, which part of a tile is seen, and the cut of a thread's scratch into arrays.
// Thread rule: pure functions on the caller's memory.
#pragma once

#include <limits>

#include "kernels/attention_mask.h"
#include "kernels/simd_math.h"
#include "kernels/tile.h"

namespace cleave::kernels {

inline constexpr std::int64_t kQueryBlock = 64;  // rows of a tile of scores
inline constexpr std::int64_t kKeyBlock = 64;    // its columns
inline constexpr std::int64_t kStrip = 16;       // rows that are masked together

constexpr std::int64_t blocks_of(std::int64_t n, std::int64_t block) {
    return (n + block - 1) / block;
}
// Rounded up to whole vectors of A.
template <class A>
constexpr std::int64_t padded(std::int64_t n) {
    return blocks_of(n, simd::kLanes<A>) * simd::kLanes<A>;
}
// Units of factors that hold n numbers.
template <class T>
constexpr std::int64_t units(std::int64_t n) {
    return blocks_of(n, simd::kUnit<T>);
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

// The three ways in which rows [first, first + count) of a head, of depth d, are packed. What is beyond the numbers is
// zero.

// The left factor of products over d: [count, units of padded d].
template <class T>
void pack_left(const HeadRows<T>& from, std::int64_t first, std::int64_t count, simd::Unit<T>* to) {
    using A = accumulator_t<T>;
    const std::int64_t stride = units<T>(padded<A>(from.depth));
    for (std::int64_t r = 0; r < count; ++r)
        simd::for_vectors<A>(0, from.depth, [&](std::int64_t d, auto live) {
            simd::store_row<T>(to + r * stride + units<T>(d), simd::load(from.row(first + r) + d, live));
        });
}

// The right factor of products over rows: [units of padded count, padded d].
template <class T>
void pack_right(const HeadRows<T>& from, std::int64_t first, std::int64_t count, simd::Unit<T>* to) {
    using A = accumulator_t<T>;
    constexpr std::int64_t kRows = simd::kUnit<T>;
    const std::int64_t stride = padded<A>(from.depth);
    for (std::int64_t r = 0; r < padded<A>(count); r += kRows)
        simd::for_vectors<A>(0, from.depth, [&](std::int64_t d, auto live) {
            auto row = [&](std::int64_t i) {
                return i < count ? simd::load(from.row(first + i) + d, live) : simd::Vec<A>{};
            };
            simd::Unit<T>* place = to + r / kRows * stride + d;
            if constexpr (kRows == 2)
                simd::store_units(place, simd::pairs(row(r), row(r + 1)));
            else
                simd::store(place, row(r));
        });
}

// The right factor of products over d, for at most kKeyBlock rows: [units of d, kKeyBlock].
template <class T>
void pack_right_transposed(const HeadRows<T>& from, std::int64_t first, std::int64_t count, simd::Unit<T>* to) {
    using A = accumulator_t<T>;
    constexpr int kLanes = simd::kLanes<A>;
    constexpr std::int64_t kNumbers = kLanes * simd::kUnit<T>;  // of one row in a square of units
    for (std::int64_t r = 0; r < count; r += kLanes)
        for (std::int64_t d = 0; d < from.depth; d += kNumbers) {
            const std::int64_t live = std::min(kNumbers, from.depth - d);
            simd::Vec<A> square[kLanes];  // units as bits
            for (int i = 0; i < kLanes; ++i)
                square[i] = r + i < count ? simd::load_unit_bits(from.row(first + r + i) + d, live) : simd::Vec<A>{};
            simd::transpose<A>(square);
            for (std::int64_t i = 0; i < units<T>(live); ++i)
                std::memcpy(static_cast<void*>(to + (units<T>(d) + i) * kKeyBlock + r), &square[i], sizeof square[i]);
        }
}

// Numbers of a tile [kQueryBlock, kKeyBlock] as a left factor: of products over keys (by rows) and over queries (by
// columns). f32 and f64 keep them once, bf16 once for each.
template <class T, bool ByRows>
class FactorTile {
  public:
    using A = accumulator_t<T>;
    // Keys [s, s + kLanes) of the queries r and r + 1, r even.
    CLEAVE_INLINE void store(std::int64_t r, std::int64_t s, simd::Vec<A> v0, simd::Vec<A> v1) {
        simd::store(values_ + r * kKeyBlock + s, v0);
        simd::store(values_ + (r + 1) * kKeyBlock + s, v1);
    }
    TileA<T> by_rows(std::int64_t r, std::int64_t s) const { return {values_ + r * kKeyBlock + s, kKeyBlock, 1}; }
    TileA<T> by_columns(std::int64_t s, std::int64_t r) const { return {values_ + r * kKeyBlock + s, 1, kKeyBlock}; }

  private:
    alignas(64) T values_[kQueryBlock * kKeyBlock];
};
template <bool ByRows>
class FactorTile<bf16, ByRows> {
  public:
    CLEAVE_INLINE void store(std::int64_t r, std::int64_t s, simd::f32x16 v0, simd::f32x16 v1) {
        simd::store_units(columns_ + r / 2 * kKeyBlock + s, simd::pairs(v0, v1));
        if constexpr (ByRows) {
            simd::store_row<bf16>(rows_ + (r * kKeyBlock + s) / 2, v0);
            simd::store_row<bf16>(rows_ + ((r + 1) * kKeyBlock + s) / 2, v1);
        }
    }
    TileA<simd::Bf16Pair> by_rows(std::int64_t r, std::int64_t s) const {
        return {rows_ + (r * kKeyBlock + s) / 2, kKeyBlock / 2, 1};
    }
    TileA<simd::Bf16Pair> by_columns(std::int64_t s, std::int64_t r) const {
        return {columns_ + r / 2 * kKeyBlock + s, 1, kKeyBlock};
    }

  private:
    alignas(64) simd::Bf16Pair columns_[kQueryBlock * kKeyBlock / 2];
    alignas(64) simd::Bf16Pair rows_[ByRows ? kQueryBlock * kKeyBlock / 2 : 1];
};

// What queries [t, t + rows) see of the block of keys that begins at s: its vectors [first, last).
template <class A>
struct SeenVectors {
    SeenVectors() = default;
    SeenVectors(const KeyMask& mask, std::int64_t t, std::int64_t rows, std::int64_t s) {
        constexpr std::int64_t kLanes = simd::kLanes<A>;
        auto within = [s](std::int64_t key) { return std::clamp<std::int64_t>(key - s, 0, kKeyBlock); };
        first = within(mask.begin(t)) / kLanes;
        last = std::max(first, blocks_of(within(mask.end(t + rows - 1)), kLanes));
        all = mask.begin(t + rows - 1) <= s + first * kLanes && s + last * kLanes <= mask.end(t);
    }
    std::int64_t first = 0, last = 0;
    bool all = false;  // every query sees every key of them
};

// Cuts a thread's scratch into 64-byte aligned arrays; on a null pointer it only counts.
class Scratch {
  public:
    explicit Scratch(void* begin) : begin_(static_cast<std::byte*>(begin)) {}
    template <class U>
    U* take(std::int64_t count) {
        U* array = begin_ ? reinterpret_cast<U*>(begin_ + used_) : nullptr;
        used_ += (count * static_cast<std::int64_t>(sizeof(U)) + 63) / 64 * 64;
        return array;
    }
    std::int64_t used() const { return used_; }

  private:
    std::byte* begin_;
    std::int64_t used_ = 0;
};

}  // namespace cleave::kernels

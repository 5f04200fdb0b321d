// The product of small tiles in registers: C[rows, columns] = start + A[rows, depth] B[depth, columns]. Attention and
// our own matrix product are built on it. A is read unit by unit (factor.h) through two strides, so that a transposed A
// costs nothing; B has rows of whole vectors of units. Every element's sum runs over depth in ascending order. Thread
// rule: pure functions on the caller's memory.
#pragma once

#include "kernels/factor.h"

namespace cleave::kernels {

template <class U>
struct TileA {
    const U* data;
    std::int64_t row_stride;
    std::int64_t depth_stride;

    TileA from_row(std::int64_t row) const { return {data + row * row_stride, row_stride, depth_stride}; }
};

// What a sum begins with, given the place of its result and its row: nothing, what is there, or that times a factor of
// its row.
struct Overwrite {
    template <class A>
    CLEAVE_INLINE simd::Vec<A> operator()(const A*, std::int64_t) const {
        return simd::Vec<A>{};
    }
};
struct AddTo {
    template <class A>
    CLEAVE_INLINE simd::Vec<A> operator()(const A* c, std::int64_t) const {
        return simd::load(c);
    }
};
template <class A>
struct AddToScaled {
    const A* factors;
    CLEAVE_INLINE simd::Vec<A> operator()(const A* c, std::int64_t row) const { return simd::load(c) * factors[row]; }
};

// Rows x Vectors accumulators stay in registers. a and c begin at row `first`.
template <int Rows, int Vectors, class U, class A, class Start>
CLEAVE_INLINE void tile_block(TileA<U> a, const U* b, std::int64_t b_stride, A* c, std::int64_t c_stride,
                              std::int64_t first, std::int64_t depth, Start start) {
    using namespace simd;
    Vec<A> sums[Rows][Vectors];
    CLEAVE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) sums[r][v] = start(c + r * c_stride + v * kLanes<A>, first + r);
    }
    for (std::int64_t k = 0; k < depth; ++k) {
        decltype(load_units(b)) row[Vectors];
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            row[v] = load_units(b + k * b_stride + v * kLanes<A>);
            CLEAVE_IN_REGISTER(row[v]);
        }
        CLEAVE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const auto factor = splat_unit(a.data[r * a.row_stride + k * a.depth_stride]);
            CLEAVE_UNROLL
            for (int v = 0; v < Vectors; ++v) sums[r][v] = multiply_add(factor, row[v], sums[r][v]);
        }
    }
    CLEAVE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) store(c + r * c_stride + v * kLanes<A>, sums[r][v]);
    }
}

// A function of its own: inlined, its registers are given to what is around.
template <int Vectors, class U, class A, class Start>
__attribute__((noinline)) void tile_rows(TileA<U> a, const U* b, std::int64_t b_stride, A* c, std::int64_t c_stride,
                                         std::int64_t rows, std::int64_t depth, Start start) {
    // Enough independent sums to hide the latency of a multiply-add, few enough for 32 registers.
    constexpr int kRows = Vectors <= 2 ? 8 : 4;
    std::int64_t r = 0;
    for (; r + kRows <= rows; r += kRows)
        tile_block<kRows, Vectors>(a.from_row(r), b, b_stride, c + r * c_stride, c_stride, r, depth, start);
    for (; r < rows; ++r)
        tile_block<1, Vectors>(a.from_row(r), b, b_stride, c + r * c_stride, c_stride, r, depth, start);
}

// `vectors`: the number of columns in vectors. `depth`: in units.
template <class U, class A, class Start>
void tile_product(TileA<U> a, const U* b, std::int64_t b_stride, A* c, std::int64_t c_stride, std::int64_t rows,
                  std::int64_t vectors, std::int64_t depth, Start start) {
    constexpr std::int64_t kLanes = simd::kLanes<A>;
    for (; vectors >= 4; vectors -= 4, b += 4 * kLanes, c += 4 * kLanes)
        tile_rows<4>(a, b, b_stride, c, c_stride, rows, depth, start);
    switch (vectors) {
        case 3: return tile_rows<3>(a, b, b_stride, c, c_stride, rows, depth, start);
        case 2: return tile_rows<2>(a, b, b_stride, c, c_stride, rows, depth, start);
        case 1: return tile_rows<1>(a, b, b_stride, c, c_stride, rows, depth, start);
        default: return;
    }
}

}  // namespace cleave::kernels

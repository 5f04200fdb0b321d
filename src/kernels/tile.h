// The product of small tiles in registers: C[rows, columns] (+)= A[rows, depth] B[depth, columns]. Attention and our
// own matrix product are built on it. A is read element by element through two strides, so that a transposed A costs
// nothing; B has rows of whole vectors. Every element's sum runs over depth in ascending order. Thread rule: pure
// functions on the caller's memory.
#pragma once

#include "kernels/simd.h"

namespace cleave::kernels {

template <class A>
struct TileA {
    const A* data;
    std::int64_t row_stride;
    std::int64_t depth_stride;
};

// Rows x Vectors accumulators stay in registers.
template <class A, int Rows, int Vectors>
CLEAVE_INLINE void tile_block(TileA<A> a, const A* b, std::int64_t b_stride, A* c, std::int64_t c_stride,
                              std::int64_t depth, bool accumulate) {
    using namespace simd;
    Vec<A> sums[Rows][Vectors];
    CLEAVE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) sums[r][v] = accumulate ? load(c + r * c_stride + v * kLanes<A>) : Vec<A>{};
    }
    for (std::int64_t k = 0; k < depth; ++k) {
        Vec<A> row[Vectors];
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) row[v] = load(b + k * b_stride + v * kLanes<A>);
        CLEAVE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const Vec<A> factor = splat(a.data[r * a.row_stride + k * a.depth_stride]);
            CLEAVE_UNROLL
            for (int v = 0; v < Vectors; ++v) sums[r][v] = simd::fma(factor, row[v], sums[r][v]);
        }
    }
    CLEAVE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) store(c + r * c_stride + v * kLanes<A>, sums[r][v]);
    }
}

template <class A, int Vectors>
void tile_rows(TileA<A> a, const A* b, std::int64_t b_stride, A* c, std::int64_t c_stride, std::int64_t rows,
               std::int64_t depth, bool accumulate) {
    // Enough independent sums to hide the latency of a multiply-add, few enough for 32 registers.
    constexpr int kRows = Vectors <= 2 ? 8 : 4;
    std::int64_t r = 0;
    auto at = [&](std::int64_t row) { return TileA<A>{a.data + row * a.row_stride, a.row_stride, a.depth_stride}; };
    for (; r + kRows <= rows; r += kRows)
        tile_block<A, kRows, Vectors>(at(r), b, b_stride, c + r * c_stride, c_stride, depth, accumulate);
    for (; r < rows; ++r) tile_block<A, 1, Vectors>(at(r), b, b_stride, c + r * c_stride, c_stride, depth, accumulate);
}

// `vectors`: the number of columns in vectors.
template <class A>
void tile_product(TileA<A> a, const A* b, std::int64_t b_stride, A* c, std::int64_t c_stride, std::int64_t rows,
                  std::int64_t vectors, std::int64_t depth, bool accumulate) {
    constexpr std::int64_t kLanes = simd::kLanes<A>;
    for (; vectors >= 4; vectors -= 4, b += 4 * kLanes, c += 4 * kLanes)
        tile_rows<A, 4>(a, b, b_stride, c, c_stride, rows, depth, accumulate);
    switch (vectors) {
        case 3: return tile_rows<A, 3>(a, b, b_stride, c, c_stride, rows, depth, accumulate);
        case 2: return tile_rows<A, 2>(a, b, b_stride, c, c_stride, rows, depth, accumulate);
        case 1: return tile_rows<A, 1>(a, b, b_stride, c, c_stride, rows, depth, accumulate);
        default: return;
    }
}

}  // namespace cleave::kernels

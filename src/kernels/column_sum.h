// Sums over rows, for each column: the gradients of biases and gains. A thread owns columns, rows are added in
// ascending order in blocks of fixed size, so that the bits do not depend on the team. Thread rule: uses the calling
// rank's team.
#pragma once

#include <array>

#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

// out[o][column] += sum of f(row, column, count)[o] over rows [first, last), for `Vectors` vectors of columns. They are
// summed side by side, so that they hide each other's latencies and share the lines of the cache.
template <class A, int Vectors, std::size_t Outputs, class F, class Count>
CLEAVE_INLINE void add_rows(std::int64_t first, std::int64_t last, std::int64_t column, Count count,
                            const std::array<A*, Outputs>& out, const F& f) {
    constexpr std::int64_t lanes = simd::kLanes<A>;
    simd::Vec<A> sums[Outputs][Vectors]{};
    for (std::int64_t row = first; row < last; ++row) {
        CLEAVE_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            const auto terms = f(row, column + v * lanes, count);
            CLEAVE_UNROLL
            for (std::size_t o = 0; o < Outputs; ++o) sums[o][v] += terms[o];
        }
    }
    for (std::size_t o = 0; o < Outputs; ++o)
        for (int v = 0; v < Vectors; ++v) {
            A* sum = out[o] + column + v * lanes;
            simd::store(sum, simd::load(sum, count) + sums[o][v], count);
        }
}

// out[o][column] += sum over rows of f(row, column, count)[o], for `Outputs` sums at once; f gives one vector for each.
template <class A, std::size_t Outputs, class F>
void add_columns(std::int64_t rows, std::int64_t columns, std::array<A*, Outputs> out, const F& f) {
    constexpr std::int64_t kRowBlock = 64;     // summed in registers, then added to `out`
    constexpr std::int64_t kColumnGrain = 64;  // one cache line of bf16 or more
    constexpr std::int64_t kSmall = 8192;      // elements below which one thread is faster
    constexpr int kVectors = 4;
    const std::int64_t grain = rows * columns < kSmall ? std::max<std::int64_t>(1, columns) : kColumnGrain;
    parallel_for(columns, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t first = 0; first < rows; first += kRowBlock) {
            const std::int64_t last = std::min(rows, first + kRowBlock);
            std::int64_t column = begin;
            for (; column + kVectors * simd::kLanes<A> <= end; column += kVectors * simd::kLanes<A>)
                add_rows<A, kVectors>(first, last, column, simd::Full<A>{}, out, f);
            simd::for_vectors<A>(column, end,
                                 [&](std::int64_t at, auto count) { add_rows<A, 1>(first, last, at, count, out, f); });
        }
    });
}

}  // namespace cleave::kernels

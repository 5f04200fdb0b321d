// Sums over rows, for each column: the gradients of biases and gains. A thread owns columns, rows are added in
// ascending order in blocks of fixed size, so that the bits do not depend on the team. Thread rule: uses the calling
// rank's team.
#pragma once

#include <array>

#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

constexpr std::int64_t kRowBlock = 4;  // rows that are summed in registers, then added to `out`

// out[o][column] += sum over rows of f(row, column, count)[o], for `Outputs` sums at once; f gives one vector for each.
template <class A, std::size_t Outputs, class F>
void add_columns(std::int64_t rows, std::int64_t columns, std::array<A*, Outputs> out, F&& f) {
    constexpr std::int64_t kColumnGrain = 64;  // one cache line of bf16 or more
    constexpr std::int64_t kSmall = 8192;      // elements below which one thread is faster
    const std::int64_t grain = rows * columns < kSmall ? std::max<std::int64_t>(1, columns) : kColumnGrain;
    parallel_for(columns, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t first = 0; first < rows; first += kRowBlock) {
            const std::int64_t last = std::min(rows, first + kRowBlock);
            simd::for_vectors<A>(begin, end, [&](std::int64_t column, auto count) {
                std::array<simd::Vec<A>, Outputs> sums{};
                for (std::int64_t row = first; row < last; ++row) {
                    const auto terms = f(row, column, count);
                    for (std::size_t o = 0; o < Outputs; ++o) sums[o] += terms[o];
                }
                for (std::size_t o = 0; o < Outputs; ++o)
                    simd::store(out[o] + column, simd::load(out[o] + column, count) + sums[o], count);
            });
        }
    });
}

}  // namespace cleave::kernels

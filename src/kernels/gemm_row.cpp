// The product of one row and a matrix, y[n] = a[k] b[k, n] (+ bias[n]): what a token's pass of generation consists of.
// It reads every element of b once, so that its bound is the memory's rate; oneDNN packs b first, which is worth it for
// many rows only.
#include <algorithm>

#include "base/error.h"
#include "kernels/gemm.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kColumns = 1024;           // of a block, whose sums stay in the nearest cache
constexpr std::int64_t kGrainElements = 1 << 15;  // elements of b that are worth a thread

// b stored as [n, k]: each element of y is the product of two rows.
template <class T, class Y, class A = accumulator_t<T>>
void by_rows(const Gemm& gemm, const T* a, const T* b, const T* bias, Y* y) {
    const std::int64_t k = gemm.k;
    parallel_for(gemm.n, std::max<std::int64_t>(1, kGrainElements / k), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) {
            const T* row = b + j * k;
            A total =
                sum_over<A>(k, [=](std::int64_t i, auto count) { return load(a + i, count) * load(row + i, count); });
            if (bias != nullptr) total += static_cast<A>(bias[j]);
            y[j] = static_cast<Y>(total);
        }
    });
}

// b stored as [k, n]: blocks of columns, four rows of b at a time, k in ascending order.
template <class T, class Y, class A = accumulator_t<T>>
void by_columns(const Gemm& gemm, const T* a, const T* b, const T* bias, Y* y) {
    const std::int64_t k = gemm.k, n = gemm.n;
    const std::int64_t grain = std::max<std::int64_t>(kLanes<A>, kGrainElements / k / kLanes<A> * kLanes<A>);
    const auto block = [=](std::int64_t first, std::int64_t columns) {
        alignas(64) A sums[kColumns];
        for_vectors<A>(0, columns, [&](std::int64_t c, auto count) {
            store(sums + c, bias != nullptr ? load(bias + first + c, count) : Vec<A>{}, count);
        });
        const auto add_rows = [&]<int Rows>(std::int64_t i, std::integral_constant<int, Rows>) {
            for_vectors<A>(0, columns, [&](std::int64_t c, auto count) {
                Vec<A> sum = load(sums + c, count);
                for (int r = 0; r < Rows; ++r)
                    sum += load(b + (i + r) * n + first + c, count) * static_cast<A>(a[i + r]);
                store(sums + c, sum, count);
            });
        };
        std::int64_t i = 0;
        for (; i + 4 <= k; i += 4) add_rows(i, std::integral_constant<int, 4>{});
        for (; i < k; ++i) add_rows(i, std::integral_constant<int, 1>{});
        for_vectors<A>(0, columns,
                       [&](std::int64_t c, auto count) { store(y + first + c, load(sums + c, count), count); });
    };
    parallel_for(n, grain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t first = begin; first < end; first += kColumns) block(first, std::min(kColumns, end - first));
    });
}

template <class T, class Y>
void product(const Gemm& gemm, const GemmOperands& operands) {
    const auto* a = static_cast<const T*>(operands.a);
    const auto* b = static_cast<const T*>(operands.b);
    const auto* bias = static_cast<const T*>(gemm.bias ? operands.bias : nullptr);
    auto* y = static_cast<Y*>(operands.y);
    gemm.b_transposed ? by_rows(gemm, a, b, bias, y) : by_columns(gemm, a, b, bias, y);
}

}  // namespace

bool is_row_gemm(const Gemm& gemm) {
    return gemm.m == 1 && gemm.n > 0 && gemm.k > 0 && !gemm.accumulate && gemm.input != DType::f64;
}

void row_gemm(const Gemm& gemm, const GemmOperands& operands) {
    if (gemm.input == DType::f32)
        product<float, float>(gemm, operands);
    else if (gemm.output == DType::bf16)
        product<bf16, bf16>(gemm, operands);
    else
        product<bf16, float>(gemm, operands);
}

}  // namespace cleave::kernels

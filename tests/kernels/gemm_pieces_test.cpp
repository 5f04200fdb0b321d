// Products with an extent that is cut into pieces, against sums of whole numbers, which are exact in any order.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/gemm.h"

namespace cleave::kernels::test {
namespace {

int value(std::int64_t i, int salt) {
    return static_cast<int>((i * 7 + salt) % 5) - 2;
}

template <class T>
std::vector<T> values(std::int64_t count, int salt) {
    std::vector<T> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(static_cast<T>(static_cast<float>(value(i, salt))));
    return all;
}

// T: of the factors; the result is f32.
template <class T>
void expect_exact(const Gemm& gemm) {
    const auto a = values<T>(gemm.m * gemm.k, 1);
    const auto b = values<T>(gemm.k * gemm.n, 2);
    const auto bias = values<T>(gemm.n, 3);
    auto y = values<float>(gemm.m * gemm.n, 4);
    std::vector<std::byte> workspace(static_cast<std::size_t>(onednn_workspace_bytes(gemm)) + 64);
    void* aligned = workspace.data();
    std::size_t space = workspace.size();
    std::align(64, space - 64, aligned, space);
    onednn_gemm(gemm, {a.data(), b.data(), gemm.bias ? bias.data() : nullptr, y.data()}, aligned);
    for (std::int64_t i = 0; i < gemm.m; ++i)
        for (std::int64_t j = 0; j < gemm.n; ++j) {
            std::int64_t sum = (gemm.bias ? value(j, 3) : 0) + (gemm.accumulate ? value(i * gemm.n + j, 4) : 0);
            for (std::int64_t l = 0; l < gemm.k; ++l)
                sum += value(gemm.a_transposed ? l * gemm.m + i : i * gemm.k + l, 1) *
                       value(gemm.b_transposed ? j * gemm.k + l : l * gemm.n + j, 2);
            ASSERT_EQ(y[static_cast<std::size_t>(i * gemm.n + j)], static_cast<float>(sum)) << i << ", " << j;
        }
}

TEST(GemmPieces, ALongSumIsThatOfItsPieces) {
    for (const std::int64_t k : {8192, 8193, 20001})
        for (const bool bias : {false, true})
            for (const bool accumulate : {false, true})
                expect_exact<float>({.m = 5, .n = 3, .k = k, .bias = bias, .accumulate = accumulate});
}

TEST(GemmPieces, ManyRowsAreThoseOfTheirPieces) {
    for (const std::int64_t m : {8192, 8193, 20001})
        for (const bool accumulate : {false, true})
            expect_exact<bf16>({.m = m,
                                .n = 3,
                                .k = 5,
                                .a_transposed = true,
                                .accumulate = accumulate,
                                .input = DType::bf16,
                                .output = DType::f32});
}

}  // namespace
}  // namespace cleave::kernels::test

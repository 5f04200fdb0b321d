// Numbers at the edge of what a dtype holds, where a formula that is right on paper fails: large logits and scores,
// rows far from zero, small second moments, and what is not a number, which must come through.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "reference.h"

namespace cleave::kernels::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Array of(const Shape& shape, std::vector<double> values) {
    Array array(shape);
    array.values = std::move(values);
    return array;
}

std::vector<Array> results(const Kernel& kernel, const std::vector<std::pair<Array, DType>>& inputs,
                           const std::vector<std::pair<Array, DType>>& outputs) {
    std::vector<Tensor> in, out;
    for (const auto& [array, dtype] : inputs) in.emplace_back(array, dtype);
    for (const auto& [array, dtype] : outputs) out.emplace_back(array, dtype);
    launch(kernel, in, out);
    std::vector<Array> values;
    for (const Tensor& t : out) values.push_back(t.values());
    return values;
}

class Extremes : public testing::TestWithParam<DType> {};

// exp of such logits is infinite or zero; their differences are small. Widths with and without an incomplete vector.
TEST_P(Extremes, CrossEntropyOfLargeLogits) {
    for (double far : {-1000.0, 1000.0})
        for (std::int64_t width : {3, 16, 35}) {
            Array logits({2, width}, far - 400);
            logits[1] = far;
            logits[2] = far - 1;
            for (std::int64_t i = 0; i < width; ++i) logits[width + i] = far;
            const Array labels = of({2}, {2, 0});
            const auto loss = results(CrossEntropy(1), {{logits, GetParam()}, {labels, DType::i32}},
                                      {{Array(Shape{}), GetParam()}, {Array({2}), GetParam()}});
            const double n = static_cast<double>(width);
            EXPECT_NEAR(loss[1][0], far + std::log1p(std::exp(-1)), 1e-4) << far << " " << width;
            EXPECT_NEAR(loss[1][1], far + std::log(n), 1e-4) << far << " " << width;
            EXPECT_NEAR(loss[0][0], std::log1p(std::exp(-1)) + 1 + std::log(n), 2e-4) << far << " " << width;
        }
}

TEST_P(Extremes, AttentionOfLargeScores) {
    // Keys of one head dim 1: score[t, s] = q[t] k[s], far beyond the range of exp; the highest is met late, so that
    // what was summed before is forgotten, or early, so that what comes later counts nothing.
    for (double q : {-30.0, 30.0}) {
        const std::int64_t keys = 200;
        Array k({1, keys, 1, 1}), v({1, keys, 1, 1});
        for (std::int64_t s = 0; s < keys; ++s) {
            k[s] = static_cast<double>(s);
            v[s] = static_cast<double>(s + 1);
        }
        const auto out = results(Attention({.scale = 1, .causal = false}),
                                 {{Array({1, 1, 1, 1}, q), GetParam()}, {k, GetParam()}, {v, GetParam()}},
                                 {{Array({1, 1, 1, 1}), GetParam()}, {Array({1, 1, 1}), GetParam()}});
        EXPECT_NEAR(out[0][0], q > 0 ? 200 : 1, 1e-4);
        EXPECT_NEAR(out[1][0], q > 0 ? 30 * 199 : 0, 1e-3);
    }
}

// The variance of a row is the mean of squares of what is left when the mean is gone, not a difference of large sums.
TEST_P(Extremes, LayerNormOfRowsFarFromZero) {
    const Shape x{3, 203}, rows{3}, width{203};
    const Array gain(width, 1), bias(width, 0);
    const double shift = GetParam() == DType::f64 ? 1e7 : 4096;
    std::vector<Tensor> rounded;
    rounded.emplace_back(normal(x, "x", shift), GetParam());
    const Array values = rounded[0].values();
    const auto expected = reference::layer_norm(values, gain, bias, 1e-5, rows);
    const auto y = results(LayerNorm(1e-5), {{values, GetParam()}, {gain, GetParam()}, {bias, GetParam()}},
                           {{Array(x), GetParam()}, {Array(rows), GetParam()}, {Array(rows), GetParam()}});
    for (std::int64_t i = 0; i < y[0].size(); ++i) ASSERT_NEAR(y[0][i], expected[0][i], 2e-3) << i;
}

// Gradients so small that epsilon decides: outside the root of the second moment, not inside.
TEST_P(Extremes, AdamWOfTinyGradients) {
    const AdamW adamw(1e-3, 0.9, 0.99, 1e-8, 0.1, 1, 1);
    const Array g = of({4}, {1e-8, -1e-8, 1e-12, 0});
    const auto out = results(adamw, {{g, GetParam()}},
                             {{Array({4}, 1e-3), GetParam()}, {Array({4}), GetParam()}, {Array({4}), GetParam()}});
    const auto expected = reference::adamw(adamw, g, Array({4}, 1e-3), Array({4}), Array({4}));
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(out[0][i], expected[0][i], 1e-8) << i;
    EXPECT_NEAR(out[0][0], 1e-3 - 1e-3 * (0.5 + 1e-4), 1e-8);
}

// A run stops at a loss that is not finite: no kernel may lose it on the way.
TEST_P(Extremes, WhatIsNotANumberComesThrough) {
    const DType t = GetParam();
    const Shape s{1, 40};
    const Array ones(s, 1);
    for (std::int64_t at : {0, 5, 37}) {  // in whole vectors and in an incomplete one
        Array x = ones;
        x[at] = kNaN;
        const auto nan_at = [&](const Array& y) { return std::isnan(y[at]); };
        EXPECT_TRUE(nan_at(results(Gelu{}, {{x, t}}, {{ones, t}})[0]));
        EXPECT_TRUE(nan_at(results(GeluBackward{}, {{ones, t}, {x, t}}, {{ones, t}})[0]));
        EXPECT_TRUE(nan_at(results(GeluBackward{}, {{x, t}, {ones, t}}, {{ones, t}})[0]));
        EXPECT_TRUE(nan_at(results(Relu{}, {{x, t}}, {{ones, t}})[0]));
        EXPECT_TRUE(nan_at(results(SwiGlu{}, {{x, t}, {ones, t}}, {{ones, t}})[0]));
        EXPECT_TRUE(nan_at(results(SwiGluBackward{}, {{ones, t}, {x, t}, {ones, t}}, {{ones, t}, {ones, t}})[1]));
        const Array row({1});
        EXPECT_TRUE(nan_at(results(RmsNorm{}, {{x, t}, {Array({40}, 1), t}}, {{ones, t}, {row, t}})[0]));
        const auto loss =
            results(CrossEntropy(1), {{x, t}, {of({1}, {1}), DType::i32}}, {{Array(Shape{}), t}, {row, t}});
        EXPECT_TRUE(std::isnan(loss[0][0])) << at;
        const Shape heads{1, 40, 1, 1};
        Array k(heads, 1);
        k[at] = kNaN;
        const auto o = results(Attention({.scale = 1, .causal = false}),
                               {{Array({1, 1, 1, 1}, 1), t}, {k, t}, {Array(heads, 1), t}},
                               {{Array({1, 1, 1, 1}), t}, {Array({1, 1, 1}), t}});
        EXPECT_TRUE(std::isnan(o[0][0])) << at;
    }
}

// Where the activation is x or 0, its derivative is 1 or 0: also where x^2 overflows.
TEST_P(Extremes, GeluBackwardOfLargeNumbers) {
    for (double x : {-1e30, -1e18, -200.0, 200.0, 1e18, 1e30}) {
        const auto dx = results(GeluBackward{}, {{Array({1}, 3), GetParam()}, {Array({1}, x), GetParam()}},
                                {{Array({1}), GetParam()}});
        EXPECT_EQ(dx[0][0], x > 0 ? 3.0 : 0.0) << x;
    }
}

// The derivative at the corner is stated, and y serves as x.
TEST_P(Extremes, ReluBackwardAtZero) {
    const auto dx = results(ReluBackward{}, {{Array({2}, 3), GetParam()}, {of({2}, {0.0, -0.0}), GetParam()}},
                            {{Array({2}, 1), GetParam()}});
    EXPECT_EQ(dx[0].values, (std::vector<double>{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Extremes, testing::Values(DType::f64, DType::f32),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace cleave::kernels::test

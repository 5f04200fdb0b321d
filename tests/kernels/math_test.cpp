// The accuracy of our own functions on f32 vectors, against the C library in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/activation.h"
#include "kernels/simd_math.h"
#include "tensors.h"

namespace cleave::kernels::test {
namespace {

// The distance in units in the last place of the f32 nearest to `exact`.
double ulps(float value, double exact) {
    const float nearest = static_cast<float>(exact);
    if (value == nearest) return 0;
    const double unit = static_cast<double>(std::nextafter(std::abs(nearest), INFINITY) - std::abs(nearest));
    return std::abs(static_cast<double>(value) - exact) / unit;
}

TEST(Math, ExpIsWithinTwoUnitsOverItsWholeRange) {
    double worst = 0;
    for (int i = 0; i < 2'000'000; ++i) {
        const float x = -103.5F + 192.0F * static_cast<float>(i) / 2e6F;
        const float y = simd::exp(simd::splat(x))[i % 16];
        worst = std::max(worst, ulps(y, std::exp(static_cast<double>(x))));
    }
    EXPECT_LE(worst, 2.0);
}

TEST(Math, ExpAtTheEdges) {
    const auto exp = [](float x) { return simd::exp(simd::splat(x))[3]; };
    EXPECT_EQ(exp(0.0F), 1.0F);
    EXPECT_EQ(exp(-INFINITY), 0.0F);
    EXPECT_EQ(exp(-1e30F), 0.0F);
    EXPECT_EQ(exp(INFINITY), INFINITY);
    EXPECT_EQ(exp(1e30F), INFINITY);
    EXPECT_TRUE(std::isnan(exp(NAN)));
}

TEST(Math, SineAndCosineAreAccurateUpToTheLargestPosition) {
    const RandomStream random(5, "angles");
    for (std::uint64_t i = 0; i < 200'000; ++i) {
        const double x = i < 100'000 ? random.uniform(i) * 10 : random.uniform(i) * 0x1p20;
        simd::f64x8 sine, cosine;
        simd::sine_cosine(simd::splat(x), sine, cosine);
        ASSERT_NEAR(sine[i % 8], std::sin(x), 3e-16) << x;
        ASSERT_NEAR(cosine[i % 8], std::cos(x), 3e-16) << x;
    }
}

TEST(Math, NarrowRoundsAsTheScalarDoes) {
    const RandomStream random(3, "bits");
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        const auto bits = static_cast<std::uint32_t>(random.bits(i));
        const float value = std::bit_cast<float>(bits);
        ASSERT_EQ(simd::narrow(simd::splat(value))[5], bf16(value).bits) << bits;
    }
    for (float value : {0.0F, -0.0F, INFINITY, -INFINITY, 1e-40F, 3.4e38F})
        EXPECT_EQ(simd::narrow(simd::splat(value))[0], bf16(value).bits) << value;
}

// Relative error of gelu in f32: that of its argument 2u is multiplied by |2u| where the result is tiny.
TEST(Math, GeluIsAccurate) {
    Array x({20'000});
    for (std::int64_t i = 0; i < x.size(); ++i) x[i] = -6 + 12 * static_cast<double>(i) / 20'000;
    std::vector<Tensor> in, out;
    in.emplace_back(x, DType::f32);
    out.emplace_back(x, DType::f32);
    launch(Gelu{}, in, out);
    const Array rounded = in[0].values();
    const Array y = out[0].values();
    for (std::int64_t i = 0; i < x.size(); ++i) {
        const double v = rounded[i];
        const double twice_u = 2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
        const double exact = v / (1 + std::exp(-twice_u));
        ASSERT_LE(ulps(static_cast<float>(y[i]), exact), 4 + 2.5 * std::abs(std::min(twice_u, 0.0))) << v;
    }
}

TEST(Math, ActivationsTakeEveryNumber) {
    for (float x : {-INFINITY, -1e30F, -200.0F, 200.0F, 1e18F}) {
        std::vector<Tensor> in, out;
        in.emplace_back(Array({1}, static_cast<double>(x)), DType::f32);
        out.emplace_back(Array({1}), DType::f32);
        launch(Gelu{}, in, out);
        const double y = out[0].values()[0];
        if (std::isfinite(x)) {
            EXPECT_EQ(y, x > 0 ? static_cast<double>(x) : 0.0) << x;
        }
    }
}

}  // namespace
}  // namespace cleave::kernels::test

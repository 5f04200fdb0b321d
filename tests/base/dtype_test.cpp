// bf16 rounding against the definition (the nearest of the two neighbours, found in f64), and the dtype table.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/random.h"

namespace cleave {
namespace {

float value_of(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}
bf16 from_bits(std::uint32_t bits) {
    bf16 x;
    x.bits = static_cast<std::uint16_t>(bits);
    return x;
}

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const bf16 x = from_bits(bits);
        const auto wide = static_cast<float>(x);
        if (std::isnan(wide)) {
            ASSERT_TRUE(std::isnan(static_cast<float>(bf16(wide)))) << bits;
        } else {
            ASSERT_EQ(bf16(wide).bits, bits);
        }
    }
}

TEST(Bf16, TiesGoToTheEvenNeighbour) {
    EXPECT_EQ(bf16(value_of(0x3f808000)).bits, 0x3f80);  // halfway, the lower neighbour is even
    EXPECT_EQ(bf16(value_of(0x3f818000)).bits, 0x3f82);  // halfway, the upper neighbour is even
    EXPECT_EQ(bf16(value_of(0x3f808001)).bits, 0x3f81);  // just above halfway
    EXPECT_EQ(bf16(value_of(0x3f817fff)).bits, 0x3f81);  // just below halfway
    EXPECT_EQ(bf16(value_of(0xbf818000)).bits, 0xbf82);  // the same for negative numbers
    EXPECT_EQ(bf16(value_of(0x00018000)).bits, 0x0002);  // and for subnormal ones
}

TEST(Bf16, RoundsToTheNearest) {
    const RandomStream stream(1, "bf16");
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        const float x = value_of(static_cast<std::uint32_t>(stream.bits(i)));
        if (!std::isfinite(x) || std::abs(x) > 3.3e38F) continue;  // beyond, the upper neighbour is infinite
        const auto below = static_cast<std::uint32_t>(std::bit_cast<std::uint32_t>(x) >> 16);
        const double down = static_cast<float>(from_bits(below));
        const double up = static_cast<float>(from_bits(below + 1));
        const double got = static_cast<float>(bf16(x));
        ASSERT_EQ(std::abs(got - x), std::min(std::abs(down - x), std::abs(up - x))) << x;
    }
}

TEST(Bf16, InfinityAndNanKeepTheirKind) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(static_cast<float>(bf16(kInfinity)), kInfinity);
    EXPECT_EQ(static_cast<float>(bf16(-kInfinity)), -kInfinity);
    EXPECT_EQ(static_cast<float>(bf16(std::numeric_limits<float>::max())), kInfinity);
    // A NaN whose upper half alone would read as infinity, and one that a carry would turn into a zero.
    EXPECT_TRUE(std::isnan(static_cast<float>(bf16(value_of(0x7f800001)))));
    EXPECT_TRUE(std::isnan(static_cast<float>(bf16(value_of(0xffffffff)))));
    EXPECT_EQ(bf16(-0.0F).bits, 0x8000);
}

TEST(DType, NamesAndSizesAgreeWithTheTypes) {
    for (const DType dtype : kAllDTypes) {
        EXPECT_EQ(dtype_from(name_of(dtype)), dtype);
        dispatch(dtype, [&](auto zero) {
            EXPECT_EQ(dtype_of<decltype(zero)>(), dtype);
            EXPECT_EQ(size_of(dtype), static_cast<std::int64_t>(sizeof zero));
        });
    }
}

TEST(DType, UnknownNameListsTheKnownOnes) {
    try {
        dtype_from("fp16");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(std::string(error.what()), "unknown dtype 'fp16'; known are f64, f32, bf16, i64, i32, u8");
    }
}

TEST(DType, SumsOfBf16AreTakenInF32) {
    EXPECT_TRUE((std::is_same_v<accumulator_t<bf16>, float>));
    EXPECT_TRUE((std::is_same_v<accumulator_t<double>, double>));
}

TEST(DTypeDeathTest, DispatchFloatRefusesIntegers) {
    EXPECT_DEATH(dispatch_float(DType::i32, [](auto) {}), "broken invariant: is_float");
}

}  // namespace
}  // namespace cleave

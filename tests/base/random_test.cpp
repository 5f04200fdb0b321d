// Philox against the known answers published with Random123, the distributions against their moments.
#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace cleave {
namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

TEST(Philox, KnownAnswersOfRandom123) {
    EXPECT_EQ(philox(Counter{0, 0, 0, 0}, Key{0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    const std::uint32_t ones = 0xffffffff;
    EXPECT_EQ(philox(Counter{ones, ones, ones, ones}, Key{ones, ones}),
              (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Key{0xa4093822, 0x299f31d0}),
              (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DependsOnSeedNameStepAndIndexOnly) {
    const RandomStream stream(7, "h.0.attn.c_attn.weight", 3);
    const std::uint64_t value = stream.bits(12345);
    stream.bits(1);
    EXPECT_EQ(stream.bits(12345), value);
    EXPECT_EQ(RandomStream(7, "h.0.attn.c_attn.weight", 3).bits(12345), value);

    std::set<std::uint64_t> others = {value};
    others.insert(stream.bits(12346));
    others.insert(stream.bits(12345 + (std::uint64_t{1} << 32)));
    others.insert(RandomStream(8, "h.0.attn.c_attn.weight", 3).bits(12345));
    others.insert(RandomStream(7, "h.1.attn.c_attn.weight", 3).bits(12345));
    others.insert(RandomStream(7, "h.0.attn.c_attn.weight", 4).bits(12345));
    others.insert(RandomStream(7, "h.0.attn.c_attn.weight", 3 + (std::uint64_t{1} << 32)).bits(12345));
    EXPECT_EQ(others.size(), 7U);
}

// The mean of n draws has standard deviation sigma/sqrt(n): five of them are never seen by chance (and the draws are
// fixed). Moment k is judged by the variance of x^k.
constexpr int kDraws = 200'000;

void expect_moment(double sum, double expected, double variance) {
    EXPECT_NEAR(sum / kDraws, expected, 5 * std::sqrt(variance / kDraws));
}

TEST(RandomStream, MomentsOfUniform) {
    const RandomStream stream(1, "uniform");
    double first = 0, second = 0, lag = 0;
    for (int i = 0; i < kDraws; ++i) {
        const auto index = static_cast<std::uint64_t>(i);
        const double x = stream.uniform(index);
        ASSERT_GE(x, 0.0);
        ASSERT_LT(x, 1.0);
        first += x;
        second += x * x;
        lag += (x - 0.5) * (stream.uniform(index + 1) - 0.5);
    }
    expect_moment(first, 1.0 / 2, 1.0 / 12);
    expect_moment(second, 1.0 / 3, 4.0 / 45);
    expect_moment(lag, 0, 1.0 / 144);
}

TEST(RandomStream, MomentsOfNormal) {
    const RandomStream stream(1, "normal");
    std::array<double, 4> sums{};
    int beyond_two = 0;
    for (int i = 0; i < kDraws; ++i) {
        const double x = stream.normal(static_cast<std::uint64_t>(i));
        double power = 1;
        for (double& sum : sums) sum += power *= x;
        if (std::abs(x) > 2) ++beyond_two;
    }
    expect_moment(sums[0], 0, 1);
    expect_moment(sums[1], 1, 2);
    expect_moment(sums[2], 0, 15);
    expect_moment(sums[3], 3, 96);
    const double tail = std::erfc(std::sqrt(2.0));  // P(|x| > 2) = 0.0455
    expect_moment(beyond_two, tail, tail * (1 - tail));
}

TEST(RandomStream, BelowIsUniform) {
    const RandomStream stream(1, "below");
    constexpr std::uint64_t kSides = 7;
    std::vector<int> count(kSides);
    for (int i = 0; i < kDraws; ++i) {
        const std::uint64_t x = stream.below(static_cast<std::uint64_t>(i), kSides);
        ASSERT_LT(x, kSides);
        ++count[x];
    }
    for (const int c : count) expect_moment(c, 1.0 / kSides, 1.0 / kSides * (1 - 1.0 / kSides));
}

// Of 3 * 2^62 values the upper third comes up a third of the time; a remainder (bits % n) would give it a quarter.
TEST(RandomStream, BelowHasNoBiasForLargeRanges) {
    const RandomStream stream(2, "below");
    constexpr std::uint64_t kThird = std::uint64_t{1} << 62;
    std::array<int, 3> count{};
    for (int i = 0; i < kDraws; ++i) ++count[stream.below(static_cast<std::uint64_t>(i), 3 * kThird) / kThird];
    for (const int c : count) expect_moment(c, 1.0 / 3, 2.0 / 9);
}

TEST(RandomStream, BelowOneIsZero) {
    EXPECT_EQ(RandomStream(1, "x").below(5, 1), 0U);
}

TEST(RandomStream, ABlockHoldsTheWordsOfItsCounters) {
    const RandomStream stream(11, "mask", (std::uint64_t{5} << 32) + 9);
    std::array<std::uint32_t, RandomStream::kBlockWords> words{};
    for (std::uint64_t block : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 40}) {
        stream.block(block, words);
        for (std::size_t counter = 0; counter < words.size() / 4; ++counter) {
            const std::uint64_t bits = stream.bits(block * (words.size() / 4) + counter);  // words 0 and 1
            EXPECT_EQ((std::uint64_t{words[4 * counter + 1]} << 32) | words[4 * counter], bits);
        }
    }
}

}  // namespace
}  // namespace cleave

// Dropout against its definition, element by element, and its statistics.
#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cleave::kernels {
namespace {

constexpr double kProbability = 0.3;

// The rule of kernels/dropout.h for one element of the global batch.
bool kept(const RandomStream& stream, std::uint64_t index) {
    std::array<std::uint32_t, RandomStream::kBlockWords> words{};
    stream.block(index / words.size(), words);
    return words[index % words.size()] >= std::llround(kProbability * 0x1p32);
}

View view(std::vector<double>& values, const Shape& shape) {
    return whole_view(values.data(), DType::f64, shape);
}

TEST(Dropout, DependsOnTheGlobalIndexOfEveryElement) {
    const RandomStream stream(3, "place", 8);
    const Shape global{12, 5, 7};
    // The rows 6 to 8 of the batch, columns 2 to 4 of dim 1: a piece of a microbatch that begins at row 5.
    std::vector<double> x(3 * 3 * 7), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0 + static_cast<double>(i);
    auto piece = [&](std::vector<double>& values) {
        View result = view(values, {3, 3, 7});
        result.global = {4, 5, 7};
        result.offset = {1, 2, 0};
        return result;
    };
    const View in = piece(x), out = piece(y);
    Dropout(kProbability, stream, 5).run(std::array{in}, std::array{out}, nullptr);
    for (std::int64_t b = 0; b < 3; ++b)
        for (std::int64_t t = 0; t < 3; ++t)
            for (std::int64_t c = 0; c < 7; ++c) {
                const auto at = static_cast<std::size_t>((b * 3 + t) * 7 + c);
                const auto index = static_cast<std::uint64_t>(((6 + b) * 5 + 2 + t) * 7 + c);
                EXPECT_DOUBLE_EQ(y[at], kept(stream, index) ? x[at] / (1 - kProbability) : 0.0);
            }
}

TEST(Dropout, AStoredMaskIsTheOneThatIsDrawn) {
    const RandomStream stream(3, "place", 8);
    const Shape shape{9, 130};
    std::vector<double> x(9 * 130), drawn(x.size()), masked(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0 + static_cast<double>(i);
    std::vector<std::uint8_t> mask(x.size());
    const View in = view(x, shape);
    const View stored = whole_view(mask.data(), DType::u8, shape);
    Dropout(kProbability, stream, 2).run(std::array{in}, std::array{view(drawn, shape)}, nullptr);
    DropoutMask(kProbability, stream, 2).run(std::array{in}, std::array{stored}, nullptr);
    ApplyMask(1 / (1 - kProbability)).run(std::array{in, stored}, std::array{view(masked, shape)}, nullptr);
    EXPECT_EQ(drawn, masked);
}

TEST(Dropout, DropsWithItsProbabilityAndKeepsTheMean) {
    const Shape shape{100, 1000};
    std::vector<double> x(100000, 1.0), y(x.size());
    Dropout(kProbability, RandomStream(1, "a", 1), 0)
        .run(std::array{view(x, shape)}, std::array{view(y, shape)}, nullptr);
    double mean = 0;
    for (double v : y) mean += v / static_cast<double>(y.size());
    EXPECT_NEAR(mean, 1.0, 5 * std::sqrt(kProbability / (1 - kProbability) / 1e5));  // 5 standard deviations
    std::vector<double> other(x.size());
    Dropout(kProbability, RandomStream(1, "a", 2), 0)
        .run(std::array{view(x, shape)}, std::array{view(other, shape)}, nullptr);
    EXPECT_NE(y, other) << "another step";
}

}  // namespace
}  // namespace cleave::kernels

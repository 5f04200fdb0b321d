// What an update counts as lost, with values made for it.
#include <gtest/gtest.h>

#include "kernels/optimizer.h"
#include "tensors.h"

namespace cleave::kernels::test {
namespace {

// Enough elements for several threads; element i has the values of `pattern` i mod its size.
constexpr std::int64_t kRepeats = 5000;

Array repeated(const std::vector<double>& pattern) {
    Array array({static_cast<std::int64_t>(pattern.size()) * kRepeats});
    for (std::int64_t i = 0; i < array.size(); ++i) array[i] = pattern[static_cast<std::size_t>(i) % pattern.size()];
    return array;
}

struct Counts {
    double gradients, updates, waiting;
    bool operator==(const Counts&) const = default;
};

// Of each repeat of the pattern.
Counts counts_of(const Kernel& kernel, DType dtype, const std::vector<double>& gradients,
                 const std::vector<double>& parameters, int moments, bool copy) {
    const Array g = repeated(gradients);
    std::vector<Tensor> in, out;
    in.emplace_back(g, dtype);
    out.emplace_back(repeated(parameters), dtype);
    for (int m = 0; m < moments; ++m) out.emplace_back(Array(g.shape), dtype);
    if (copy) out.emplace_back(repeated(parameters), DType::bf16);
    out.emplace_back(Array({kUpdateCounts}), DType::f64);
    launch(kernel, in, out);
    Array found = out.back().values();
    for (double& value : found.values) value /= kRepeats;
    return {found[kGradientsUnderflowed], found[kUpdatesLost], found[kUpdatesWaiting]};
}

constexpr double kTiny = 0x1p-130;  // below the normal numbers of f32

TEST(UpdateCounts, OfSgdWithoutDecay) {
    // Nothing; a gradient below the normal numbers, lost beside 1; lost beside 1 (2^-24 is half a unit before it, and
    // a tie goes to the even 1 above it alone); the smallest that moves it; the tiny gradient beside 0, which it moves.
    const std::vector<double> gradients{0, kTiny, -0x1p-24, -0x1p-23, kTiny};
    const std::vector<double> parameters{1, 1, 1, 1, 0};
    EXPECT_EQ(counts_of(Sgd(1, 0, 1, false, true), DType::f32, gradients, parameters, 0, false), (Counts{2, 2, 0}));
    // f64 has numbers between all of these; beside 1 the tiny one is lost there too.
    EXPECT_EQ(counts_of(Sgd(1, 0, 1, false, true), DType::f64, gradients, parameters, 0, false), (Counts{0, 1, 0}));
    // Clipping makes two of them smaller: one below what moves the parameter.
    EXPECT_EQ(counts_of(Sgd(1, 0, 0.25, false, true), DType::f32, gradients, parameters, 0, false), (Counts{2, 3, 0}));
    // A gradient that clipping turns into 0 has underflowed.
    EXPECT_EQ(counts_of(Sgd(1, 0, 0x1p-30, false, true), DType::f32, {kTiny}, {1}, 0, false), (Counts{1, 0, 0}));
}

TEST(UpdateCounts, OfTheWorkingCopy) {
    // The unit of bf16 above 1 is 2^-7: 2^-8 is a tie that goes to the even 1, a little more moves the copy as well.
    const std::vector<double> gradients{0, -0x1p-20, -0x1p-8, -0x1.1p-8, -0x1p-7, -0x1p-24};
    const std::vector<double> parameters(gradients.size(), 1);
    EXPECT_EQ(counts_of(Sgd(1, 0, 1, true, true), DType::f32, gradients, parameters, 0, true), (Counts{0, 1, 2}));
    EXPECT_EQ(counts_of(Sgd(1, 0, 1, true, true), DType::f64, gradients, parameters, 0, true), (Counts{0, 0, 3}));
}

TEST(UpdateCounts, OfAdamW) {
    // The first step changes a parameter by about lr whatever the gradient, where that is far above epsilon.
    const std::vector<double> gradients{0, 1, -1e-3};
    const std::vector<double> parameters{1, 1, 1};
    const auto adamw = [](double lr, double decay, bool copy) {
        return AdamW(lr, 0.9, 0.99, 1e-8, decay, 1, 1, copy, true);
    };
    EXPECT_EQ(counts_of(adamw(1e-3, 0, true), DType::f32, gradients, parameters, 2, true), (Counts{0, 0, 2}));
    EXPECT_EQ(counts_of(adamw(1e-1, 0, true), DType::f32, gradients, parameters, 2, true), (Counts{0, 0, 0}));
    EXPECT_EQ(counts_of(adamw(1e-9, 0, true), DType::f32, gradients, parameters, 2, true), (Counts{0, 2, 0}));
    EXPECT_EQ(counts_of(adamw(1e-9, 0, false), DType::f64, gradients, parameters, 2, false), (Counts{0, 0, 0}));
    // Decay moves a parameter whose gradient is lost: lost it is all the same.
    EXPECT_EQ(counts_of(adamw(1e-9, 1e6, false), DType::f32, gradients, parameters, 2, false), (Counts{0, 2, 0}));
}

TEST(UpdateCounts, CountingChangesNoBit) {
    const Array g = normal({70001}, "g");
    for (bool copy : {false, true}) {
        std::vector<std::vector<double>> results;
        for (bool count : {false, true}) {
            std::vector<Tensor> in, out;
            in.emplace_back(g, DType::f32);
            for (const char* name : {"p", "m"}) out.emplace_back(normal(g.shape, name), DType::f32);
            out.emplace_back(Array(g.shape, 0.5), DType::f32);
            if (copy) out.emplace_back(Array(g.shape), DType::bf16);
            if (count) out.emplace_back(Array({kUpdateCounts}), DType::f64);
            launch(AdamW(1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, 3, copy, count), in, out);
            std::vector<double> all;
            for (std::size_t o = 0; o < (copy ? 4 : 3); ++o) {
                const Array values = out[o].values();
                all.insert(all.end(), values.values.begin(), values.values.end());
            }
            results.push_back(std::move(all));
        }
        EXPECT_EQ(results[0], results[1]);
    }
}

}  // namespace
}  // namespace cleave::kernels::test

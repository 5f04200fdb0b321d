// ZeRO in all stages equals one rank, and the stages have equal bits: the same sums are made in the same order,
// wherever they are kept.
#include <gtest/gtest.h>

#include "run.h"

namespace cleave::zero {
namespace {

using test::Options;
using test::Outcome;
using test::Variant;

Options untied_or_tied(Variant variant) {
    Options options = test::small_options(variant);
    options.model.tied_embeddings = variant == Variant::gpt2;
    return options;
}

Options options_of(Variant variant, int dp, int stage, int accumulation = 1) {
    Options options = untied_or_tied(variant);
    options.layout = {dp, accumulation};
    options.job.zero.stage = stage;
    return options;
}

const Outcome& one_rank(Variant variant) {
    static std::map<Variant, Outcome> outcomes;
    if (outcomes.count(variant) == 0) {
        Options options = untied_or_tied(variant);
        options.steps = 3;
        outcomes[variant] = test::run(options);
    }
    return outcomes.at(variant);
}

void expect_equal(const Outcome& reference, const Outcome& outcome) {
    const auto gradient = worst_of(gradient_distances(reference.gradients, outcome.gradients));
    EXPECT_LT(gradient.distance, 1e-12) << gradient.parameter;
    ASSERT_EQ(outcome.losses.size(), reference.losses.size());
    for (std::size_t step = 0; step < reference.losses.size(); ++step) {
        EXPECT_NEAR(outcome.losses[step], reference.losses[step], 1e-12);
        EXPECT_NEAR(outcome.norms[step], reference.norms[step], 1e-11);
    }
    const double rates = static_cast<double>(reference.losses.size()) * 1e-2;
    const auto parameter = worst_of(parameter_distances(reference.parameters, outcome.parameters, rates));
    EXPECT_LT(parameter.distance, 1e-8) << parameter.parameter;
}

// gpt2 has tied embeddings here, llama has not.
class SlowZero : public testing::TestWithParam<std::tuple<Variant, int, int, int>> {};

TEST_P(SlowZero, EqualsOneRankInF64) {
    const auto [variant, dp, stage, accumulation] = GetParam();
    Options options = options_of(variant, dp, stage, accumulation);
    options.steps = 3;
    expect_equal(one_rank(variant), test::run(options));
    if (accumulation > 1) return;
    options.job.recompute = Recompute::full;
    expect_equal(one_rank(variant), test::run(options));
}

INSTANTIATE_TEST_SUITE_P(Matrix, SlowZero,
                         testing::Combine(testing::Values(Variant::gpt2, Variant::llama), testing::Values(2, 3, 4, 8),
                                          testing::Values(1, 2, 3), testing::Values(1, 3)),
                         [](const auto& info) {
                             return test::name_of(std::get<0>(info.param)) + "Dp" +
                                    std::to_string(std::get<1>(info.param)) + "Stage" +
                                    std::to_string(std::get<2>(info.param)) + "Accumulation" +
                                    std::to_string(std::get<3>(info.param));
                         });

TEST(ZeroStages, OnOneRankAreStage0) {
    for (int stage : {1, 2, 3}) {
        Options options = options_of(Variant::gpt2, 1, stage);
        options.steps = 3;
        const Outcome outcome = test::run(options);
        EXPECT_EQ(outcome.bits, one_rank(Variant::gpt2).bits);
        EXPECT_EQ(outcome.norms, one_rank(Variant::gpt2).norms);
    }
}

void expect_same_bits(const Outcome& a, const Outcome& b, const std::string& what) {
    EXPECT_EQ(a.bits, b.bits) << what;
    EXPECT_EQ(a.losses, b.losses) << what;
    EXPECT_EQ(a.norms, b.norms) << what;
}

class SlowZeroBits : public testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(SlowZeroBits, OfAllStagesAreEqualAfterTwentySteps) {
    const auto [dtype, dp] = GetParam();
    for (Variant variant : {Variant::gpt2, Variant::llama}) {
        const auto run = [&, dtype = dtype, dp = dp](int stage) {
            Options options = options_of(variant, dp, stage);
            options.job.train.dtype = dtype;
            options.job.train.batch = 24;
            options.job.train.clip = 0.4;
            options.steps = 20;
            return test::run(options);
        };
        const Outcome whole = run(0);
        EXPECT_GT(*std::max_element(whole.norms.begin(), whole.norms.end()), 0.4) << "nothing is clipped";
        for (int stage : {1, 2, 3}) expect_same_bits(run(stage), whole, "stage " + std::to_string(stage));
    }
}

TEST_P(SlowZeroBits, OfPairsOfStagesAreEqualWithAccumulation) {
    const auto [dtype, dp] = GetParam();
    const auto run = [&, dtype = dtype, dp = dp](int stage, ZeroReduce reduce) {
        Options options = options_of(Variant::gpt2, dp, stage, 3);
        options.job.train.dtype = dtype;
        options.job.train.batch = 72;
        options.job.zero.reduce = reduce;
        options.steps = 8;
        return test::run(options);
    };
    const Outcome whole = run(0, ZeroReduce::microbatch);
    expect_same_bits(run(1, ZeroReduce::microbatch), whole, "stage 1");
    expect_same_bits(run(2, ZeroReduce::step), whole, "stage 2, reduced once a step");
    expect_same_bits(run(3, ZeroReduce::step), whole, "stage 3, reduced once a step");
    expect_same_bits(run(2, ZeroReduce::microbatch), run(3, ZeroReduce::microbatch), "stages 2 and 3");
}

INSTANTIATE_TEST_SUITE_P(DTypes, SlowZeroBits,
                         testing::Combine(testing::Values(DType::f32, DType::bf16), testing::Values(2, 3, 4)),
                         [](const auto& info) {
                             return std::string(name_of(std::get<0>(info.param))) + "Dp" +
                                    std::to_string(std::get<1>(info.param));
                         });

TEST(ZeroBuckets, BitsDoNotDependOnTheirSize) {
    for (int stage : {1, 2, 3}) {
        Options options = options_of(Variant::gpt2, 4, stage, 2);
        options.job.train.dtype = DType::f32;
        options.steps = 3;
        options.job.train.bucket_bytes = 1;  // every parameter alone
        const Outcome small = test::run(options);
        options.job.train.bucket_bytes = 1 << 30;  // all in one
        expect_same_bits(test::run(options), small, "stage " + std::to_string(stage));
    }
}

// Shards within groups, sums over them.
TEST(SlowZeroGroups, EqualOneRankInF64) {
    for (int stage : {1, 2, 3})
        for (const auto& [dp, group] : {std::pair{4, 2}, {8, 2}, {8, 4}, {6, 3}})
            for (int accumulation : {1, 3}) {
                Options options = options_of(Variant::gpt2, dp, stage, accumulation);
                options.job.zero.group = group;
                options.steps = 3;
                expect_equal(one_rank(Variant::gpt2), test::run(options));
            }
}

// Neighbours first: with powers of two the sums within a group and over the groups are those of all ranks at once.
TEST(SlowZeroGroups, OfPowersOfTwoHaveTheBitsOfAll) {
    for (int stage : {1, 2, 3}) {
        Options options = options_of(Variant::llama, 8, stage);
        options.job.train.dtype = DType::f32;
        options.steps = 5;
        const Outcome all = test::run(options);
        options.job.zero.group = 2;
        expect_same_bits(test::run(options), all, "stage " + std::to_string(stage));
    }
}

TEST(ZeroStages, CountsOfLostUpdatesAndDropoutAreThoseOfStage0) {
    const auto run = [](int stage) {
        Options options = options_of(Variant::gpt2, 3, stage);
        options.job.train.dtype = DType::bf16;
        options.job.train.count_underflow = true;
        options.model.dropout = 0.25;
        options.model.attention_dropout = 0.25;
        options.steps = 3;
        return test::run(options);
    };
    const Outcome whole = run(0);
    ASSERT_EQ(whole.underflows.size(), 3U);
    EXPECT_GT(whole.underflows[0].waiting, 0);
    for (int stage : {1, 2, 3}) {
        const Outcome outcome = run(stage);
        EXPECT_EQ(outcome.bits, whole.bits);
        for (std::size_t step = 0; step < 3; ++step) {
            EXPECT_EQ(outcome.underflows[step].waiting, whole.underflows[step].waiting);
            EXPECT_EQ(outcome.underflows[step].updates, whole.underflows[step].updates);
            EXPECT_EQ(outcome.underflows[step].gradients, whole.underflows[step].gradients);
        }
    }
}

}  // namespace
}  // namespace cleave::zero

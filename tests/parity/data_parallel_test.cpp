// Data parallelism equals one rank: loss, every raw gradient, the norm, every parameter after several steps.
#include <gtest/gtest.h>

#include "run.h"

namespace cleave {
namespace {

using test::Options;
using test::Outcome;
using test::Variant;

// A batch is no larger than its layouts need: a multiple of dp times accumulation of each of them.
Options options_of(Variant variant, std::int64_t batch) {
    Options options = test::small_options(variant);
    options.job.train.batch = batch;
    return options;
}

const Outcome& one_rank(Variant variant, std::int64_t batch) {
    static std::map<std::pair<Variant, std::int64_t>, Outcome> outcomes;
    const std::pair key(variant, batch);
    if (outcomes.count(key) == 0) {
        Options options = options_of(variant, batch);
        options.steps = 4;
        outcomes[key] = test::run(options);
    }
    return outcomes.at(key);
}

class DataParallel : public testing::TestWithParam<std::tuple<Variant, int, int>> {};

TEST_P(DataParallel, EqualsOneRankInF64) {
    const auto [variant, dp, accumulation] = GetParam();
    const std::int64_t batch = accumulation == 5 ? 120 : 144;
    Options options = options_of(variant, batch);
    options.steps = 4;
    options.layout = {dp, accumulation};
    const Outcome reference = one_rank(variant, batch);
    const Outcome outcome = test::run(options);
    const auto gradient = worst_of(gradient_distances(reference.gradients, outcome.gradients));
    EXPECT_LT(gradient.distance, 1e-12) << gradient.parameter;
    for (std::size_t step = 0; step < reference.losses.size(); ++step) {
        EXPECT_NEAR(outcome.losses[step], reference.losses[step], 1e-12);
        EXPECT_NEAR(outcome.norms[step], reference.norms[step], 1e-11);
    }
    const auto parameter = worst_of(parameter_distances(reference.parameters, outcome.parameters, 4 * 1e-2));
    EXPECT_LT(parameter.distance, 1e-8) << parameter.parameter;
    for (const auto& bits : outcome.bits) EXPECT_EQ(bits, outcome.bits[0]) << "parameters differ between ranks";
}

std::string case_name(const testing::TestParamInfo<std::tuple<Variant, int, int>>& info) {
    const auto [variant, dp, accumulation] = info.param;
    return name_of(variant) + "Dp" + std::to_string(dp) + "Accumulation" + std::to_string(accumulation);
}

INSTANTIATE_TEST_SUITE_P(Matrix, DataParallel,
                         testing::Combine(testing::Values(Variant::gpt2, Variant::llama),
                                          testing::Values(1, 2, 3, 4, 8), testing::Values(1, 2, 3, 5)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Variants, DataParallel,
                         testing::Combine(testing::Values(Variant::qwen2, Variant::qwen3, Variant::llama3),
                                          testing::Values(2, 3), testing::Values(2)),
                         case_name);

// f32 and bf16: per tensor at most 4 times the distance of the one-rank run in that dtype from the one-rank f64 run.
class LowPrecision : public testing::TestWithParam<DType> {};

TEST_P(LowPrecision, StaysWithinItsOwnRoundingOfF64) {
    constexpr std::int64_t kBatch = 144;
    const Outcome& exact = one_rank(Variant::gpt2, kBatch);
    Options options = options_of(Variant::gpt2, kBatch);
    options.job.train.dtype = GetParam();
    const Outcome alone = test::run(options);
    options.layout = {4, 3};
    const Outcome many = test::run(options);
    const auto own = gradient_distances(exact.gradients, alone.gradients);
    const auto difference = gradient_distances(exact.gradients, many.gradients);
    for (const auto& [name, distance] : difference) EXPECT_LE(distance, 4 * own.at(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(DTypes, LowPrecision, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// The z-loss is a mean over the labels of the whole batch as well, and no part of the loss that is shown.
TEST(DataParallel, TheZLossEqualsThatOfOneRank) {
    for (Variant variant : {Variant::gpt2, Variant::llama}) {
        Options options = options_of(variant, 120);
        options.job.train.z_loss = 0.05;
        options.steps = 2;
        const Outcome reference = test::run(options);
        const Outcome& without = one_rank(variant, 120);
        EXPECT_NEAR(reference.losses[0], without.losses[0], 1e-14);
        // Weights near 0 give logits near 0, and a log-sum-exp near log 29.
        EXPECT_NEAR(reference.z_losses[0], 0.05 * std::log(29) * std::log(29), 1e-2);
        EXPECT_GT(worst_of(gradient_distances(without.gradients, reference.gradients)).distance, 1e-3);
        for (const auto& [dp, accumulation] : {std::pair{1, 5}, {2, 1}, {3, 2}, {4, 3}, {8, 1}}) {
            options.layout = {dp, accumulation};
            const Outcome outcome = test::run(options);
            const auto gradient = worst_of(gradient_distances(reference.gradients, outcome.gradients));
            EXPECT_LT(gradient.distance, 1e-12) << gradient.parameter << ", dp " << dp;
            for (std::size_t step = 0; step < 2; ++step) {
                EXPECT_NEAR(outcome.losses[step], reference.losses[step], 1e-12);
                EXPECT_NEAR(outcome.z_losses[step], reference.z_losses[step], 1e-12);
            }
        }
    }
}

// Documents and windows go with their rows, whatever ranks and microbatches cut the batch into; recomputed or not.
TEST(DataParallel, DocumentsAndWindowsEqualThoseOfOneRank) {
    for (Variant variant : {Variant::gpt2, Variant::llama}) {
        Options options = options_of(variant, 120);
        options.job.data.separate_documents = true;
        options.model.window = 3;
        options.steps = 2;
        const Outcome reference = test::run(options);
        EXPECT_GT(worst_of(gradient_distances(one_rank(variant, 120).gradients, reference.gradients)).distance, 1e-3);
        for (Recompute recompute : {Recompute::none, Recompute::full})
            for (const auto& [dp, accumulation] : {std::pair{1, 5}, {2, 1}, {3, 2}, {8, 1}}) {
                options.job.recompute = recompute;
                options.layout = {dp, accumulation};
                const Outcome outcome = test::run(options);
                const auto gradient = worst_of(gradient_distances(reference.gradients, outcome.gradients));
                EXPECT_LT(gradient.distance, 1e-12) << gradient.parameter << ", dp " << dp;
                for (std::size_t step = 0; step < 2; ++step)
                    EXPECT_NEAR(outcome.losses[step], reference.losses[step], 1e-12);
            }
    }
}

// A learning rate at which every update is lost: as many as there are gradients that are not 0, on every layout. (With
// an ordinary one the counts follow the rounding of the gradients, which is another from layout to layout.)
TEST(DataParallel, CountsOfLostUpdatesAreThoseOfOneRank) {
    Options options = options_of(Variant::llama, 24);
    options.job.train.dtype = DType::f32;
    options.job.train.optimizer = OptimizerKind::sgd;
    options.job.train.weight_decay = 0;
    options.job.train.lr = options.job.train.min_lr = 1e-25;
    options.job.train.count_underflow = true;
    options.model.initial_deviation = 1;  // no weight so small that such an update could show
    for (int dp : {1, 2, 4}) {
        options.layout = {dp, 1};
        const Outcome outcome = test::run(options);
        std::int64_t nonzero = 0;
        for (const auto& [name, values] : outcome.gradients)
            nonzero += std::count_if(values.begin(), values.end(), [](double g) { return g != 0; });
        ASSERT_EQ(outcome.underflows.size(), 1U);
        EXPECT_GT(nonzero, 1000);
        EXPECT_EQ(outcome.underflows[0].updates, nonzero);
        EXPECT_EQ(outcome.underflows[0].gradients, 0);
    }
}

TEST(DataParallel, ParametersStayBitEqualOverTwentySteps) {
    Options options = options_of(Variant::gpt2, 48);
    options.job.train.dtype = DType::f32;
    options.steps = 20;
    for (int dp : {2, 3, 4, 8}) {
        options.layout = {dp, 1};
        const Outcome outcome = test::run(options);
        for (const auto& bits : outcome.bits) EXPECT_EQ(bits, outcome.bits[0]);
    }
}

TEST(DataParallel, BitsDoNotDependOnTheBucketSize) {
    Options options = options_of(Variant::gpt2, 48);
    options.job.train.dtype = DType::f32;
    options.steps = 3;
    options.layout = {4, 2};
    options.job.train.bucket_bytes = 1;  // every parameter alone
    const Outcome small = test::run(options);
    options.job.train.bucket_bytes = 1 << 30;  // all in one
    const Outcome large = test::run(options);
    EXPECT_EQ(small.bits[0], large.bits[0]);
    EXPECT_EQ(small.losses, large.losses);
}

TEST(DataParallel, RepeatsBitForBit) {
    for (DType dtype : {DType::f32, DType::bf16}) {
        Options options = options_of(Variant::gpt2, 48);
        options.job.train.dtype = dtype;
        options.steps = 3;
        options.layout = {3, 2};
        const Outcome first = test::run(options);
        const Outcome second = test::run(options);
        EXPECT_EQ(first.bits, second.bits) << name_of(dtype);
        EXPECT_EQ(first.losses, second.losses);
        EXPECT_EQ(first.norms, second.norms);
    }
}

// The reduction of the first bucket is issued while backward still runs, and waited for after it; and gradients are
// reduced once a step, whatever the accumulation count.
TEST(DataParallel, ReductionOverlapsBackwardAndHappensOnce) {
    for (int accumulation : {1, 3}) {
        Options options = options_of(Variant::gpt2, 48);
        options.layout = {2, accumulation};
        options.trace = true;
        const Outcome outcome = test::run(options);
        for (const auto& events : outcome.traces) {
            std::ptrdiff_t first_issue = -1;
            std::ptrdiff_t last_launch_of_backward = -1;
            std::ptrdiff_t first_wait = -1;
            std::ptrdiff_t reduce_mark = -1;
            std::int64_t gradient_bytes = 0;
            for (std::size_t i = 0; i < events.size(); ++i) {
                const Event& event = events[i];
                const bool bucket = event.detail.rfind("gradient bucket", 0) == 0;
                if (event.type == EventType::issue && bucket) {
                    gradient_bytes += event.bytes;
                    if (first_issue < 0) first_issue = static_cast<std::ptrdiff_t>(i);
                }
                if (event.type == EventType::wait && bucket && first_wait < 0)
                    first_wait = static_cast<std::ptrdiff_t>(i);
                if (event.type == EventType::mark && event.name == "reduce")
                    reduce_mark = static_cast<std::ptrdiff_t>(i);
                if (event.type == EventType::launch && reduce_mark < 0)
                    last_launch_of_backward = static_cast<std::ptrdiff_t>(i);
            }
            ASSERT_GE(first_issue, 0);
            EXPECT_LT(first_issue, last_launch_of_backward);
            EXPECT_GT(first_wait, reduce_mark);
            // 2 (n-1)/n of the gradients' bytes: with two ranks, as many as the gradients have (plus padding to
            // blocks).
            std::int64_t expected = 0;
            for (const auto& [name, values] : outcome.gradients)
                expected += static_cast<std::int64_t>((values.size() + 511) / 512 * 512) * 8;
            EXPECT_EQ(gradient_bytes, expected) << "accumulation " << accumulation;
        }
    }
}

// The mask depends on the place in the global batch, not on the rank or the microbatch that a row falls to.
TEST(DataParallel, DropoutIsThatOfOneRank) {
    Options options = options_of(Variant::gpt2, 120);
    options.model.dropout = 0.25;
    options.model.attention_dropout = 0.25;
    options.steps = 2;
    const Outcome alone = test::run(options);
    for (double ModelConfig::*each : {&ModelConfig::dropout, &ModelConfig::attention_dropout}) {
        options.model.*each = 0;
        EXPECT_NE(test::run(options).losses, alone.losses);
        options.model.*each = 0.25;
    }
    for (test::Layout1D layout : {test::Layout1D{1, 5}, {2, 3}, {3, 1}, {4, 2}})
        for (bool keep : {false, true})
            for (Recompute recompute : {Recompute::none, Recompute::full}) {
                options.layout = layout;
                options.model.keep_dropout_masks = keep;
                options.job.recompute = recompute;
                const Outcome outcome = test::run(options);
                const auto gradient = worst_of(gradient_distances(alone.gradients, outcome.gradients));
                EXPECT_LT(gradient.distance, 1e-12) << gradient.parameter << " dp " << layout.dp;
                for (std::size_t step = 0; step < alone.losses.size(); ++step)
                    EXPECT_NEAR(outcome.losses[step], alone.losses[step], 1e-12);
            }
}

}  // namespace
}  // namespace cleave

// The order of samples: judged against the text itself, whose token at position i is i.
#include "train/sampler.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "support/scratch.h"

namespace cleave {
namespace {

constexpr std::int64_t kSamplerContext = 8;

// A text in which every position has a character of its own: token = position within the whole text.
Dataset numbered(std::int64_t size, double train_fraction = 0.5) {
    Job::Data data;
    data.path = "numbered";
    data.train_fraction = train_fraction;
    std::string text;
    for (std::int64_t i = 0; i < size; ++i) {
        const auto c = static_cast<std::uint32_t>(0x4E00 + i);  // three bytes each in UTF-8
        text += static_cast<char>(0xE0 | c >> 12);
        text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
        text += static_cast<char>(0x80 | (c & 0x3F));
    }
    return Dataset::from_text(text, data);
}

Samples training(const Sampler& sampler, std::int64_t step, RowRange rows) {
    Samples samples;
    sampler.training(step, rows, samples);
    return samples;
}

TEST(Sampler, LabelsAreTheNextTokensAndStayInTheirPart) {
    const Dataset dataset = numbered(200);
    const Sampler sampler(dataset, kSamplerContext, 7);
    Samples samples;
    for (Part part : {Part::train, Part::validation}) {
        sampler.evaluation(part, 3, {0, 500}, samples);
        ASSERT_EQ(samples.tokens.size(), 500u * kSamplerContext);
        for (std::size_t i = 0; i < samples.tokens.size(); ++i) {
            EXPECT_EQ(samples.labels[i], samples.tokens[i] + 1);
            if (i % kSamplerContext != 0) {
                EXPECT_EQ(samples.tokens[i], samples.tokens[i - 1] + 1);
            }
        }
        const auto [least, most] = std::minmax_element(samples.labels.begin(), samples.labels.end());
        // 500 draws of 92 positions: every position comes up, the first and the last too.
        EXPECT_EQ(*least, part == Part::train ? 1 : 101);
        EXPECT_EQ(*most, part == Part::train ? 99 : 199);
    }
}

TEST(Sampler, TheGlobalBatchDoesNotDependOnTheLayout) {
    const Dataset dataset = numbered(400);
    constexpr std::int64_t kBatch = 360;
    for (std::int64_t step : {0, 1, 1000}) {
        const Samples whole = training(Sampler(dataset, kSamplerContext, 7), step, {0, kBatch});
        for (int dp : {1, 2, 3, 4, 8}) {
            for (std::int64_t accumulation : {1, 3, 5}) {
                Samples joined;
                for (int rank = 0; rank < dp; ++rank) {
                    const Sampler own(dataset, kSamplerContext, 7);  // nothing is shared between ranks
                    for (std::int64_t m = 0; m < accumulation; ++m) {
                        const auto rows = microbatch_rows(kBatch, dp, rank, kBatch / dp / accumulation, m);
                        const Samples part = training(own, step, rows);
                        joined.tokens.insert(joined.tokens.end(), part.tokens.begin(), part.tokens.end());
                        joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
                    }
                }
                EXPECT_EQ(joined.tokens, whole.tokens) << dp << " ranks, accumulation " << accumulation;
                EXPECT_EQ(joined.labels, whole.labels);
            }
        }
    }
}

TEST(Sampler, StepSeedAndPurposeGiveOtherSamples) {
    const Dataset dataset = numbered(2000);
    const Sampler sampler(dataset, kSamplerContext, 7);
    const Samples first = training(sampler, 0, {0, 16});
    EXPECT_NE(training(sampler, 1, {0, 16}).tokens, first.tokens);
    EXPECT_NE(training(Sampler(dataset, kSamplerContext, 8), 0, {0, 16}).tokens, first.tokens);
    Samples evaluation;
    sampler.evaluation(Part::train, 0, {0, 16}, evaluation);
    EXPECT_NE(evaluation.tokens, first.tokens);
    EXPECT_EQ(training(sampler, 0, {0, 16}).tokens, first.tokens);  // drawing others changed nothing
}

TEST(Sampler, PositionsAreDrawnEvenly) {
    const Dataset dataset = numbered(216, 0.5);  // 108 tokens, 100 positions
    const Sampler sampler(dataset, kSamplerContext, 1);
    std::vector<double> count(100, 0);
    constexpr int kDraws = 20000;
    for (int step = 0; step < kDraws / 20; ++step) {
        const Samples samples = training(sampler, step, {0, 20});
        for (std::size_t row = 0; row < 20; ++row)
            ++count[static_cast<std::size_t>(samples.tokens[row * kSamplerContext])];
    }
    double chi_squared = 0;
    for (double n : count) chi_squared += (n - kDraws / 100.0) * (n - kDraws / 100.0) / (kDraws / 100.0);
    // 99 degrees of freedom: mean 99, standard deviation 14.1; outside 50..160 fewer than once in 10^4 seeds.
    EXPECT_GT(chi_squared, 50);
    EXPECT_LT(chi_squared, 160);
}

TEST(Sampler, TheCoverPredictsEveryTokenExactlyOnce) {
    for (std::int64_t tokens : {9, 16, 17, 18, 40, 41}) {
        const Dataset dataset = numbered(2 * tokens);
        const Sampler sampler(dataset, kSamplerContext, 7);
        ASSERT_EQ(static_cast<std::int64_t>(dataset.tokens(Part::validation).size()), tokens);
        const std::int64_t rows = sampler.cover_rows(Part::validation);
        Samples samples;
        sampler.cover(Part::validation, {0, rows + 2}, samples);  // two more rows than there are
        ASSERT_EQ(samples.labels.size(), static_cast<std::size_t>((rows + 2) * kSamplerContext));
        std::multiset<Token> predicted;
        for (std::size_t i = 0; i < samples.labels.size(); ++i) {
            if (samples.labels[i] == -100) continue;
            predicted.insert(samples.labels[i]);
            EXPECT_EQ(samples.labels[i], samples.tokens[i] + 1);
        }
        std::multiset<Token> expected;
        for (std::int64_t i = 1; i < tokens; ++i) expected.insert(static_cast<Token>(tokens + i));
        EXPECT_EQ(predicted, expected) << tokens << " tokens";
        EXPECT_EQ(sampler.cover_labels(Part::validation), tokens - 1);
    }
}

TEST(Sampler, ReusesTheMemoryOfItsTarget) {
    const Dataset dataset = numbered(200);
    const Sampler sampler(dataset, kSamplerContext, 7);
    Samples samples = training(sampler, 0, {0, 12});
    const auto* tokens = samples.tokens.data();
    const auto* labels = samples.labels.data();
    sampler.training(1, {0, 12}, samples);
    EXPECT_EQ(samples.tokens.data(), tokens);
    EXPECT_EQ(samples.labels.data(), labels);
}

}  // namespace
}  // namespace cleave

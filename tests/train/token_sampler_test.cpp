// Drawing a token, against the distribution computed plainly.
#include "train/token_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace cleave {
namespace {

const std::vector<double> kLogits{0.5, -1.0, 2.0, 2.0, -30.0};

Job::Sample sample_settings(double temperature, std::int64_t top_k, double top_p) {
    Job::Sample settings;
    settings.temperature = temperature;
    settings.top_k = top_k;
    settings.top_p = top_p;
    return settings;
}

TEST(TokenSampler, TemperatureZeroTakesTheLargestOfEqualsTheFirst) {
    for (double uniform : {0.0, 0.5, 0.999})
        EXPECT_EQ(TokenSampler(sample_settings(0, 0, 1)).draw(kLogits, uniform), 2);
}

// Probabilities by the definitions: sort all, cut, normalise, cut, normalise.
std::vector<double> distribution(const std::vector<double>& logits, const Job::Sample& how) {
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    if (how.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(how.top_k)));
    const auto total = [&] {
        double sum = 0;
        for (std::size_t v : order) sum += std::exp(logits[v] / how.temperature);
        return sum;
    };
    const double all = total();
    double reached = 0;
    std::size_t kept = 0;
    while (kept < order.size() && (kept == 0 || reached < how.top_p * all))
        reached += std::exp(logits[order[kept++]] / how.temperature);
    if (how.top_p < 1) order.resize(kept);
    const double rest = total();
    std::vector<double> probabilities(logits.size());
    for (std::size_t v : order) probabilities[v] = std::exp(logits[v] / how.temperature) / rest;
    return probabilities;
}

void expect_distribution(const std::vector<double>& logits, const Job::Sample& how) {
    TokenSampler sampler(how);
    const std::vector<double> expected = distribution(logits, how);
    // Evenly spaced numbers in [0, 1): shares are exact up to one in their count.
    constexpr int kDraws = 4000;
    std::vector<int> count(logits.size());
    for (int i = 0; i < kDraws; ++i) ++count[static_cast<std::size_t>(sampler.draw(logits, (i + 0.5) / kDraws))];
    for (std::size_t v = 0; v < logits.size(); ++v) {
        EXPECT_NEAR(count[v], kDraws * expected[v], 1.01)
            << v << ", temperature " << how.temperature << ", top " << how.top_k << ", p " << how.top_p;
        if (expected[v] == 0) {
            EXPECT_EQ(count[v], 0) << v;
        }
    }
}

TEST(TokenSampler, DrawsFromTheTopKAndTheNucleusOfThose) {
    for (double temperature : {1.0, 0.5, 3.0})
        for (std::int64_t top_k : {0, 2, 3, 5, 9})
            for (double top_p : {1.0, 0.999, 0.95, 0.8, 0.45, 0.3, 1e-9})
                expect_distribution(kLogits, sample_settings(temperature, top_k, top_p));
}

// Logits 0 and -log 2: probabilities 2/3 and 1/3. The nucleus of exactly 2/3 is one token, of a little more both.
TEST(TokenSampler, TheNucleusIsTheSmallestSetThatReachesP) {
    const std::vector<double> logits{-std::log(2.0), 0};
    EXPECT_EQ(TokenSampler(sample_settings(1, 0, 0.66)).draw(logits, 0.0), 1);
    EXPECT_EQ(TokenSampler(sample_settings(1, 0, 0.67)).draw(logits, 0.0), 0);
    // After top-k: of the two that stay, half of the probability is one of them.
    EXPECT_EQ(TokenSampler(sample_settings(1, 2, 0.5)).draw(std::vector<double>{1, 1, 1, 1}, 0.999), 0);
}

// More candidates than are sorted at first, a nucleus that reaches far into them.
TEST(TokenSampler, ManyTokens) {
    std::vector<double> logits;
    const RandomStream random(1, "logits");
    for (std::uint64_t v = 0; v < 700; ++v) logits.push_back(0.5 * random.normal(v));
    for (double top_p : {0.05, 0.3, 0.9, 0.9999})
        for (std::int64_t top_k : {0, 300}) expect_distribution(logits, sample_settings(1, top_k, top_p));
}

}  // namespace
}  // namespace cleave

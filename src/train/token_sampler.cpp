#include "train/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace cleave {

namespace {

std::size_t index(std::int32_t token) {
    return static_cast<std::size_t>(token);
}

struct Likelier {
    std::span<const double> logits;
    bool operator()(std::int32_t a, std::int32_t b) const {
        const double x = logits[index(a)], y = logits[index(b)];
        return x != y ? x > y : a < b;
    }
};

}  // namespace

std::int32_t TokenSampler::draw(std::span<const double> logits, double uniform) {
    CLEAVE_CHECK(!logits.empty());
    if (settings_.temperature <= 0)
        return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    candidates_.resize(logits.size());
    std::iota(candidates_.begin(), candidates_.end(), 0);
    keep_top_k(logits);
    weigh(logits);
    keep_nucleus(logits);
    double left = uniform * total_weight();
    for (const std::int32_t token : candidates_) {
        left -= weights_[index(token)];
        if (left < 0) return token;
    }
    return candidates_.back();
}

void TokenSampler::keep_top_k(std::span<const double> logits) {
    const std::int64_t k = settings_.top_k;
    if (k <= 0 || k >= static_cast<std::int64_t>(candidates_.size())) return;
    std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), Likelier{logits});
    candidates_.resize(static_cast<std::size_t>(k));
    std::sort(candidates_.begin(), candidates_.end());
}

void TokenSampler::weigh(std::span<const double> logits) {
    double largest = -std::numeric_limits<double>::infinity();
    for (const std::int32_t token : candidates_) largest = std::max(largest, logits[index(token)]);
    weights_.resize(logits.size());
    for (const std::int32_t token : candidates_)
        weights_[index(token)] = std::exp((logits[index(token)] - largest) / settings_.temperature);
}

double TokenSampler::total_weight() const {
    double total = 0;
    for (const std::int32_t token : candidates_) total += weights_[index(token)];
    return total;
}

// Most nuclei are small: candidates are sorted only as far as it reaches.
void TokenSampler::keep_nucleus(std::span<const double> logits) {
    if (settings_.top_p >= 1) return;
    constexpr std::size_t kFirstSorted = 64;
    const double wanted = settings_.top_p * total_weight();
    const auto at = [&](std::size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
    double reached = 0;
    std::size_t kept = 0, sorted = 0;
    do {
        if (kept == sorted) {
            sorted = std::min(candidates_.size(), std::max(kFirstSorted, 2 * sorted));
            if (sorted < candidates_.size())
                std::nth_element(at(kept), at(sorted), candidates_.end(), Likelier{logits});
            std::sort(at(kept), at(sorted), Likelier{logits});
        }
        reached += weights_[index(candidates_[kept])];
        ++kept;
    } while (reached < wanted && kept < candidates_.size());
    candidates_.resize(kept);
    std::sort(candidates_.begin(), candidates_.end());
}

}  // namespace cleave

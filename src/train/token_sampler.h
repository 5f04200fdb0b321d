// How the next token is drawn from logits, in the order of Hugging Face's processors: temperature, top-k, top-p.
// Thread rule: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/job.h"

namespace cleave {

class TokenSampler {
  public:
    // Draws from softmax(logits / temperature) over the top_k largest (0 = all), and of those over the *nucleus*: the
    // fewest likeliest tokens, at least one, whose probabilities add up to top_p (Holtzman et al. 2020; 1 = all). Of
    // equal logits the first token is the likelier. Temperature 0 takes the largest.
    explicit TokenSampler(const Job::Sample& settings) : settings_(settings) {}

    // `uniform` in [0, 1). The logits are finite.
    std::int32_t draw(std::span<const double> logits, double uniform);

  private:
    void keep_top_k(std::span<const double> logits);
    void weigh(std::span<const double> logits);
    void keep_nucleus(std::span<const double> logits);
    double total_weight() const;

    Job::Sample settings_;
    // Kept from draw to draw, so that a draw allocates nothing.
    std::vector<std::int32_t> candidates_;
    std::vector<double> weights_;  // by token
};

}  // namespace cleave

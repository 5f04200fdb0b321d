// Whether two sources give one model: every weight, bit for bit, and the logits of a fixed prompt.
// Thread rule: one rank's thread.
#pragma once

#include <string>
#include <vector>

#include "train/weights_source.h"

namespace cleave {

// The outcome of a comparison; everything equal unless said otherwise.
struct Comparison {
    std::int64_t tensors = 0;
    std::vector<std::string> different;  // names of parameters whose bits differ
    double logit_difference = 0;         // largest; NaN counts as infinite
    bool equal() const { return different.empty() && logit_difference == 0; }
};

// The weights of `model`, which it rounds to `stored` first, with those that `written` gives.
Comparison compare_with(const WeightsSource& written, Engine& engine, Transformer& model, DType stored);

// The logits of a prompt of at most 64 tokens, the same for every model of one vocabulary.
std::vector<double> logits_of_prompt(Engine& engine, Transformer& model);
// NaN counts as infinite.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace cleave

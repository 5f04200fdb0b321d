// Sampling from the model, one token after another. Every rank of the engine computes the same text: random numbers
// depend on (seed, position) only. Thread rule: one rank's thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "train/job.h"
#include "train/tokenizer.h"

namespace cleave {

// Continues `prompt` (at least one token) by settings.tokens tokens, seen through a window of the model's context. Only
// the first `vocabulary` tokens are drawn: a model may have more rows than its tokenizer has tokens. `on_token` is
// called with each as it comes. Throws RunError where the model's output is not finite.
std::vector<std::int32_t> generate(Engine& engine, Transformer& model, std::span<const std::int32_t> prompt,
                                   const Job::Sample& settings, std::int64_t vocabulary, std::uint64_t seed,
                                   const std::function<void(std::int32_t)>& on_token = {});

// The prompt as tokens; an empty one is a line break, or where characters are tokens, or ids have no text, the first of
// the vocabulary. Throws UserError, naming the text as `what`, where the vocabulary lacks a character.
std::vector<Token> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt, std::string_view what);

// One draw from softmax(logits / temperature) over the `top_k` largest (0 = all); temperature 0 takes the largest, of
// equals the first. `uniform` in [0, 1).
std::int32_t sample(std::span<const double> logits, double temperature, std::int64_t top_k, double uniform);

}  // namespace cleave

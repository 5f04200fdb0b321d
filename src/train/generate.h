// Writing text with a model, one token after another. Every rank of the engine computes the same text: random numbers
// depend on (seed, position) only. Thread rule: one rank's thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "train/job.h"
#include "train/tokenizer.h"

namespace cleave {

struct GenerationSettings {
    Job::Sample sample;           // how many tokens, and how each is drawn
    std::int64_t vocabulary = 0;  // only the first are drawn: a model may have more rows than its tokenizer has tokens
    std::uint64_t seed = 0;
    std::vector<Token> end_tokens;  // end the text and are no part of it
    bool cache = true;              // of keys and values (train/next_logits.h)
};

enum class Ending : std::uint8_t { length, end_token, caller };

struct Generated {
    std::vector<Token> tokens;
    Ending ending = Ending::length;
    double prefill_seconds = 0;      // the pass over the prompt, which gives the first token
    double decode_seconds = 0;       // of all other passes
    std::int64_t decode_passes = 0;  // each for one token
};

// Continues `prompt` (at least one token). `on_token` is called with each token as it comes, and ends the text, after
// this token, by returning false. Throws RunError where the model's output is not finite.
Generated generate(Engine& engine, Transformer& model, std::span<const Token> prompt,
                   const GenerationSettings& settings, const std::function<bool(Token)>& on_token = {});

// The prompt as tokens; an empty one is a line break, or where characters are tokens, or ids have no text, the first of
// the vocabulary. Throws UserError, naming the text as `what`, where the vocabulary lacks a character.
std::vector<Token> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt, std::string_view what);

}  // namespace cleave

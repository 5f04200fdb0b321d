// The logits that follow a text which grows token by token. With a cache of keys and values (model/key_value_cache.h)
// the first call passes the whole text (prefill) and every other one its new tokens alone; without one every call
// passes the whole text; so does a model whose stream is cut by tokens (parallel/sequence_parallel.h), of which one
// would be too few. Both give the same logits, up to the order in which products of other shapes are summed.
//
// A model sees at most most_positions() tokens. When a text outgrows them, the oldest half is left out and what stays
// begins at position 0 again; with a cache that half is passed anew, since rotary and learned positions alike are part
// of the keys. Where the window begins depends on the text's length alone, so that it is the same with and without a
// cache, and after any prompt. Thread rule: one rank's thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"

namespace cleave {

// The first token that is still seen of a text of `tokens` tokens through a window of `positions`.
std::int64_t window_begin(std::int64_t tokens, std::int64_t positions);

class NextLogits {
  public:
    // For texts of up to `most_tokens` tokens, which bounds the memory of the cache.
    NextLogits(Engine& engine, Transformer& model, std::int64_t most_tokens, bool cached);

    // After the last token of `text`, which begins with the text of the call before; [vocabulary], valid until the next
    // call. Throws RunError where one of the first `vocabulary` is not finite.
    std::span<const double> after(std::span<const std::int32_t> text, std::int64_t vocabulary);

  private:
    Tensor pass(std::span<const std::int32_t> tokens, std::int64_t at, const SequenceContext& context);
    void read(const Tensor& logits);

    Engine& engine_;
    Transformer& model_;
    std::int64_t window_;
    std::optional<KeyValueCache> cache_;
    std::int64_t begin_ = 0;  // of the window that the cache holds
    std::int64_t held_ = 0;   // tokens of it
    std::vector<std::int32_t> row_;
    std::vector<std::byte> bytes_;
    std::vector<double> logits_;
};

}  // namespace cleave

// The shape of a decoder-only transformer.
// Thread rule: a value.
#pragma once

#include <cstdint>
#include <string>

#include "engine/functions.h"
#include "kernels/rotary_frequencies.h"

namespace cleave {

// gpt2: learned positions, LayerNorm, GELU, biases everywhere, fused QKV.
// llama: rotary positions, RMSNorm, SwiGLU, no biases, grouped-query heads. Qwen2 is llama with qkv_bias, Qwen3 llama
// with qk_norm and a head width of its own.
enum class Family : std::uint8_t { gpt2, llama };

struct ModelConfig {
    Family family = Family::gpt2;
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t kv_heads = 0;  // llama: heads of K and V; 0 = as many as heads
    std::int64_t width = 128;
    std::int64_t head_width = 0;  // llama: channels of a head; 0 = width / heads
    std::int64_t mlp_width = 0;   // 0 = 4 x width (gpt2), 8/3 x width rounded up to a multiple of 32 (llama)
    std::int64_t context = 64;    // tokens in a training sequence
    std::int64_t positions = 0;   // the longest sequence it is made for, gpt2: rows of the position table; 0 = context
    std::int64_t vocabulary = 0;  // 0 = the tokenizer's
    std::int64_t window = 0;      // tokens that attention sees, its own the last; 0 = all before it
    AttentionKind attention = AttentionKind::fused;
    bool tied_embeddings = true;  // the output projection is the token embedding
    bool qkv_bias = false;        // llama: Q, K and V have biases
    bool qk_norm = false;         // llama: RMSNorm over each head's channels of Q and K, before the rotation
    double norm_epsilon = 1e-5;
    kernels::RotaryFrequencies rotary;  // llama
    double dropout = 0;                 // of the embedding and of what attention and MLP add to the residual stream
    double attention_dropout = 0;       // of attention's probabilities
    bool keep_dropout_masks = false;    // one byte an element until backward, instead of drawing again; of attention's
                                        // probabilities where they are materialised
    double initial_deviation = 0.02;    // of weights; projections into the residual stream: / sqrt(2 x layers)

    std::int64_t head_channels() const { return head_width == 0 ? width / heads : head_width; }
    std::int64_t query_group() const { return heads / key_value_heads(); }  // heads that share a head of K and V
    std::int64_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
    std::int64_t most_positions() const { return positions == 0 ? context : positions; }
    std::int64_t hidden_mlp() const {
        if (mlp_width != 0) return mlp_width;
        return family == Family::gpt2 ? 4 * width : (8 * width / 3 + 31) / 32 * 32;
    }
};

}  // namespace cleave

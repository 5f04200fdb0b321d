// The models that differ in more than numbers: every proof on whole models covers each of them.
#pragma once

#include <string>

#include "model/model_config.h"

namespace cleave::test {

enum class Variant { gpt2, llama, qwen2, qwen3, llama3 };
inline constexpr Variant kVariants[] = {Variant::gpt2, Variant::llama, Variant::qwen2, Variant::qwen3, Variant::llama3};
inline std::string name_of(Variant variant) {
    constexpr const char* kNames[] = {"Gpt2", "Llama", "Qwen2", "Qwen3", "Llama3"};
    return kNames[static_cast<int>(variant)];
}

inline void make_variant(ModelConfig& config, Variant variant) {
    config.family = variant == Variant::gpt2 ? Family::gpt2 : Family::llama;
    if (config.family == Family::llama) config.kv_heads = 2;
    switch (variant) {
        case Variant::gpt2: config.positions = config.context + 3; break;  // longer than what it trains on
        case Variant::llama: break;
        case Variant::qwen2: config.qkv_bias = true; break;
        case Variant::qwen3:
            config.qk_norm = true;
            config.head_width = 6;
            break;
        case Variant::llama3:
            config.rotary.scaling = kernels::RotaryScaling::llama3;
            config.rotary.base = 100;  // waves of 6 and 63 tokens: one stays, one is stretched
            config.rotary.original_context = 40;
            break;
    }
}

}  // namespace cleave::test

// The frequencies of rotary positions (kernels/rotary.h): by how much pair i of a head's channels turns per position.
//
// They are f32 numbers, and so is their product with the position: every released model was trained with angles that
// were rounded so, and at position 8000 an angle in higher precision is another one by up to 5e-4. Each operation is
// rounded as Hugging Face Transformers' f32 tensors are (modeling_rope_utils.py); where that library's own vectorised
// power is not the nearest f32, the two differ in the last bit.
//
//   none     frequency = 1 / base^(2 i / d)                                                         (Su et al. 2021)
//   llama3   long wave lengths are stretched by `factor`, short ones stay, with a straight passage between them
//            (Llama 3.1's inference code, apply_scaling). With w = 2 pi / frequency and C = original_context:
//              w < C / high_frequency_factor   frequency
//              w > C / low_frequency_factor    frequency / factor
//              between                         (1 - s) frequency / factor + s frequency,
//                                              s = (C / w - low) / (high - low)
// Thread rule: a value.
#pragma once

#include <cstdint>

namespace cleave::kernels {

enum class RotaryScaling : std::uint8_t { none, llama3 };

struct RotaryFrequencies {
    RotaryFrequencies() = default;
    RotaryFrequencies(double base_) : base(base_) {}  // unscaled

    double base = 10000.0;
    RotaryScaling scaling = RotaryScaling::none;
    // llama3; the defaults are those of Llama 3.1
    double factor = 8.0;
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    std::int64_t original_context = 8192;  // tokens

    // Of pair `i` of `d` channels, in radians a position; 0 <= i < d / 2.
    float at(std::int64_t i, std::int64_t d) const;
    friend bool operator==(const RotaryFrequencies&, const RotaryFrequencies&) = default;
};

}  // namespace cleave::kernels

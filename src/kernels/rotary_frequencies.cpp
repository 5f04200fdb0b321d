#include "kernels/rotary_frequencies.h"

#include <cmath>
#include <numbers>

namespace cleave::kernels {

namespace {

// The nearest f32 to base^exponent, both being f32.
float power(float base, float exponent) {
    return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

float llama3(const RotaryFrequencies& f, float frequency) {
    const double context = static_cast<double>(f.original_context);
    const auto low = static_cast<float>(f.low_frequency_factor);
    const auto factor = static_cast<float>(f.factor);
    // A number over a tensor is that tensor's reciprocal times the number.
    const float wave_length = static_cast<float>(2 * std::numbers::pi) * (1.0F / frequency);
    if (wave_length > static_cast<float>(context / f.low_frequency_factor)) return frequency / factor;
    if (wave_length < static_cast<float>(context / f.high_frequency_factor)) return frequency;
    const float smooth = (static_cast<float>(context) * (1.0F / wave_length) - low) /
                         static_cast<float>(f.high_frequency_factor - f.low_frequency_factor);
    return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

float RotaryFrequencies::at(std::int64_t i, std::int64_t d) const {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(d);
    const float frequency = 1.0F / power(static_cast<float>(base), exponent);
    return scaling == RotaryScaling::llama3 ? llama3(*this, frequency) : frequency;
}

}  // namespace cleave::kernels

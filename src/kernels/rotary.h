// Rotary position embedding (Su et al. 2021) in the Hugging Face "rotate half" order: with h = d / 2, position t and
// angle a = t frequency(i) (kernels/rotary_frequencies.h; a is rounded to f32 in every dtype), for i < h:
//   y[i]     = x[i] cos a - x[i + h] sin a
//   y[i + h] = x[i + h] cos a + x[i] sin a
// x is [b t h d], or [b t g r d] with the heads in two dims. t is the global index along dim 1, plus position0.
// `inverse` turns back: it is also the backward kernel. Input and output may be strided (the last dim dense) and may be
// the same storage.
#pragma once

#include "kernels/kernel.h"
#include "kernels/rotary_frequencies.h"

namespace cleave::kernels {

struct Rotary : Declared<"rotary", "x[b t h.. d!] -> y[b t h.. d!]", 3> {
    explicit Rotary(const RotaryFrequencies& frequencies_, bool inverse_ = false, std::int64_t position0_ = 0)
        : frequencies(frequencies_), inverse(inverse_), position0(position0_) {}
    RotaryFrequencies frequencies;
    bool inverse;
    std::int64_t position0;

    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

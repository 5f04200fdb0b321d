// Normalisation of rows x[r, 0..c).
//   LayerNorm   y = (x - mean) rstd gain + bias,  mean = sum x / c,  rstd = 1 / sqrt(sum (x - mean)^2 / c + epsilon)
//                                                                    (Ba, Kiros, Hinton 2016)
//   RmsNorm     y = x rstd gain,                  rstd = 1 / sqrt(sum x^2 / c + epsilon)     (Zhang, Sennrich 2019)
// x, y, dy, dx, gain and bias have one dtype; mean and rstd and the gradients of gain and bias have its accumulator's.
// Everything is dense. Gradients of gain and bias are added to what is there (+=), rows in ascending order in blocks of
// fixed size.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct LayerNorm : Kernel {  // x, gain, bias -> y, mean, rstd
    explicit LayerNorm(double epsilon_ = 1e-5) : epsilon(epsilon_) {}
    double epsilon;

    std::string_view name() const override { return "layer_norm"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct LayerNormBackwardInput : Kernel {  // dy, x, gain, mean, rstd -> dx
    std::string_view name() const override { return "layer_norm_backward_input"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct LayerNormBackwardWeight : Kernel {  // dy, x, mean, rstd -> dgain +=, dbias +=
    std::string_view name() const override { return "layer_norm_backward_weight"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct RmsNorm : Kernel {  // x, gain -> y, rstd
    explicit RmsNorm(double epsilon_ = 1e-5) : epsilon(epsilon_) {}
    double epsilon;

    std::string_view name() const override { return "rms_norm"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct RmsNormBackwardInput : Kernel {  // dy, x, gain, rstd -> dx
    std::string_view name() const override { return "rms_norm_backward_input"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct RmsNormBackwardWeight : Kernel {  // dy, x, rstd -> dgain +=
    std::string_view name() const override { return "rms_norm_backward_weight"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

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

struct LayerNorm : Declared<"layer_norm", "~x[r.. c!] ~gain[c!] ~bias[c!] -> y[r.. c!] mean[r..] rstd[r..]", 8> {
    explicit LayerNorm(double epsilon_ = 1e-5) : epsilon(epsilon_) {}
    double epsilon;

    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct LayerNormBackwardInput
    : Declared<"layer_norm_backward_input", "dy[r.. c!] ~x[r.. c!] ~gain[c!] ~mean[r..] ~rstd[r..] -> dx[r.. c!]", 12> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct LayerNormBackwardWeight
    : Declared<"layer_norm_backward_weight",
               "dy[r.. c!] ~x[r.. c!] ~mean[r..] ~rstd[r..] -> dgain[c!] dbias[c!]"> {  // dgain +=, dbias +=
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct RmsNorm : Declared<"rms_norm", "~x[r.. c!] ~gain[c!] -> y[r.. c!] rstd[r..]", 4> {
    explicit RmsNorm(double epsilon_ = 1e-5) : epsilon(epsilon_) {}
    double epsilon;

    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct RmsNormBackwardInput
    : Declared<"rms_norm_backward_input", "dy[r.. c!] ~x[r.. c!] ~gain[c!] ~rstd[r..] -> dx[r.. c!]", 8> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct RmsNormBackwardWeight
    : Declared<"rms_norm_backward_weight", "dy[r.. c!] ~x[r.. c!] ~rstd[r..] -> dgain[c!]"> {  // dgain +=
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

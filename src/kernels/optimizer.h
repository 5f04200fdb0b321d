// Parameter updates and the norm of gradients. Gradients, parameters and moments have one dtype (f32 or f64) and are
// dense; `working_copy` adds a last output: the parameters in bf16, rounded from the updated ones. Gradients are
// multiplied by gradient_scale first (clipping). `count` adds an output behind that, f64[kUpdateCounts].
//   AdamW (Loshchilov, Hutter 2019; as PyTorch computes it), t = step, the first step is 1:
//     p *= 1 - lr weight_decay
//     m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
//     p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//   Sgd:  p -= lr (g + weight_decay p)
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

// What `count` counts, in elements:
enum UpdateCount : std::uint8_t {
    kGradientsUnderflowed,  // gradients that are not 0, but scaled below the smallest normal number of their dtype
    kUpdatesLost,           // what the gradient would have changed is not 0, but too small beside the parameter
    kUpdatesWaiting,        // the parameter has changed, its working copy in bf16 has not
    kUpdateCounts
};

struct AdamW : Kernel {  // g -> p, m, v [, p in bf16] [, counts]: p, m and v are updated in place
    AdamW(double lr_, double beta1_, double beta2_, double epsilon_, double weight_decay_, double gradient_scale_,
          std::int64_t step_, bool working_copy_ = false, bool count_ = false)
        : lr(lr_),
          beta1(beta1_),
          beta2(beta2_),
          epsilon(epsilon_),
          weight_decay(weight_decay_),
          gradient_scale(gradient_scale_),
          step(step_),
          working_copy(working_copy_),
          count(count_) {}
    double lr;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double gradient_scale;
    std::int64_t step;
    bool working_copy;
    bool count;

    std::string_view name() const override { return "adamw"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct Sgd : Kernel {  // g -> p [, p in bf16] [, counts]: p is updated in place
    Sgd(double lr_, double weight_decay_, double gradient_scale_, bool working_copy_ = false, bool count_ = false)
        : lr(lr_),
          weight_decay(weight_decay_),
          gradient_scale(gradient_scale_),
          working_copy(working_copy_),
          count(count_) {}
    double lr;
    double weight_decay;
    double gradient_scale;
    bool working_copy;
    bool count;

    std::string_view name() const override { return "sgd"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// Elements whose squares make one partial sum of the gradients' norm.
inline constexpr std::int64_t kNormBlock = 512;

// g [n, block] -> partial[n] (f64): the sum of squares of each block. Elements are added in ascending order of a fixed
// number of lanes.
struct SquaredNorm : Declared<"squared_norm", "~g[n k!] -> partial[n]"> {
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

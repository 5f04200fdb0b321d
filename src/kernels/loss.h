// Cross entropy of logits[r, v] and labels[r] (i32); rows with label `ignore` count nothing.
//   loss = scale * sum over the other rows of (lse[r] - logits[r, label]),  lse[r] = log sum over v of exp(logits[r,
//   v]) dlogits[r, v] = dloss scale (exp(logits[r, v] - lse[r]) - [v = label])
// loss (a scalar), dloss and lse have the accumulator's dtype of logits and dlogits. Everything is dense; dlogits may
// be the storage of logits. The loss is summed over rows in ascending order, in f64. A label outside [0, v) other than
// `ignore` is a broken invariant.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct CrossEntropy : Kernel {  // logits, labels -> loss, lse
    explicit CrossEntropy(double scale_, std::int64_t ignore_ = -100) : scale(scale_), ignore(ignore_) {}
    double scale;
    std::int64_t ignore;

    std::string_view name() const override { return "cross_entropy"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct CrossEntropyBackward : Kernel {  // dloss, logits, lse, labels -> dlogits
    explicit CrossEntropyBackward(double scale_, std::int64_t ignore_ = -100) : scale(scale_), ignore(ignore_) {}
    double scale;
    std::int64_t ignore;

    std::string_view name() const override { return "cross_entropy_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

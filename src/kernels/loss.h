// Cross entropy of logits[r, v] and labels[r] (i32); rows with label `ignore` count nothing.
//   lse[r] = log sum over v of exp(logits[r, v])
//   loss = scale * sum over the other rows of (lse[r] - logits[r, label])
//   z = scale * sum over the other rows of lse[r]^2    (the z-loss of PaLM, Chowdhery et al. 2022, section 5)
//   dlogits[r, v] = dloss scale ((1 + 2 z_loss lse[r]) exp(logits[r, v] - lse[r]) - [v = label])
// the gradient of loss + z_loss z, where z has loss's scale.
// Where the classes v are cut, each piece gives its own log-sum-exp and, where the label is in it, the label's logit:
//   statistics[piece, r] = { log sum over the piece's v of exp(logits[r, v]), logits[r, label] or 0 }
// from which, gathered, lse and loss follow: logits are never gathered. The backward needs nothing of the other pieces.
// loss and z (scalars), dloss and lse have the accumulator's dtype of logits and dlogits. Everything is dense; dlogits
// may be the storage of logits. loss and z are summed over rows in ascending order, in f64. A label outside [0, v)
// other than `ignore` is a broken invariant.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct CrossEntropy : Declared<"cross_entropy", "~logits[r.. v!] #labels[r..] -> loss[] lse[r..]"> {
    explicit CrossEntropy(double scale_, std::int64_t ignore_ = -100) : scale(scale_), ignore(ignore_) {}
    double scale;
    std::int64_t ignore;

    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct ClassStatistics : Declared<"class_statistics", "~logits[r.. v] #labels[r..] -> statistics[v r.. k!]"> {
    explicit ClassStatistics(std::int64_t ignore_ = -100) : ignore(ignore_) {}
    std::int64_t ignore;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};
struct CrossEntropyOfPieces
    : Declared<"cross_entropy_of_pieces", "~statistics[p! r.. k!] #labels[r..] -> loss[] lse[r..]"> {
    explicit CrossEntropyOfPieces(double scale_, std::int64_t ignore_ = -100) : scale(scale_), ignore(ignore_) {}
    double scale;
    std::int64_t ignore;
    void run(Views inputs, Views outputs, void* workspace) const override;
};
struct ZLoss : Declared<"z_loss", "~lse[r..] #labels[r..] -> z[]"> {
    explicit ZLoss(double scale_, std::int64_t ignore_ = -100) : scale(scale_), ignore(ignore_) {}
    double scale;
    std::int64_t ignore;

    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct CrossEntropyBackward
    : Declared<"cross_entropy_backward", "dloss[] ~logits[r.. v] ~lse[r..] #labels[r..] -> dlogits[r.. v]", 16> {
    explicit CrossEntropyBackward(double scale_, std::int64_t ignore_ = -100, double z_loss_ = 0)
        : scale(scale_), ignore(ignore_), z_loss(z_loss_) {}
    double scale;
    std::int64_t ignore;
    double z_loss;

    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

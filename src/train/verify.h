// The proof for a job of one's own: its first steps on one rank and on its layout, compared by the measure that
// ARCHITECTURE.md states under "Equal". Compared are raw gradients, not only losses: Adam divides by their size, so
// that a gradient which is wrong by a factor trains almost as well.
//
// f64: gradients within 1e-12, parameters within 1e-8. f32 and bf16: the gradient of each parameter at most 4 times as
// far from the one-rank run in f64 as the one-rank run in that dtype is (and a rounding of that dtype), and so the loss
// and the norm of the first step; parameters, and the steps that follow from them, are reported, not judged, since Adam
// turns a rounding of a gradient near zero into a whole step. Thread rule: a plain function, which starts the ranks as
// threads of this process.
#pragma once

#include <functional>
#include <optional>

#include "train/proof_run.h"

namespace cleave {

struct VerifyOptions {
    int ranks = 1;
    DType dtype = DType::f64;
    int steps = 3;
    std::function<void(const std::string&)> progress;  // what is about to run
};

struct TensorVerdict {
    std::string name;
    double gradient = 0;        // its distance from the reference
    double gradient_bound = 0;  // what is allowed
    double own = 0;             // f32, bf16: the distance of the one-rank run of that dtype
    double parameter = 0;
    bool equal = false;
};

struct VerifyReport {
    Job job;  // as it ran
    ProofRun one, many;
    std::vector<TensorVerdict> tensors;  // in the order of use
    double loss_difference = 0;          // largest of the steps that are judged, relative
    double norm_difference = 0;
    double loss_bound = 0;  // of both
    std::optional<double> parameter_bound;
    std::string first_difference;  // the first tensor, or the loss or norm, that differs; empty where all are equal
    bool equal() const { return first_difference.empty(); }
};

// The job of one rank that has the same steps: no axis has more than one rank.
Job on_one_rank(const Job& job);

// Judges runs of `job` (as it ran on its layout), `reference` and `one` being those of on_one_rank(job) in f64 and in
// the job's dtype.
VerifyReport compare(const Job& job, const ProofRun& reference, ProofRun one, ProofRun many);

// `job` is checked for the ranks; its vocabulary is set.
VerifyReport verify(const Job& job, const VerifyOptions& options);

}  // namespace cleave

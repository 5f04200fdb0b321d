// What a proof compares: the first steps of a job on some layout, brought home. Nothing of it knows which layout: the
// job says. Thread rule: a plain function, which starts the ranks as threads of this process.
#pragma once

#include <vector>

#include "train/job.h"
#include "train/layout_distance.h"
#include "train/sampler.h"

namespace cleave {

struct ProofRun {
    std::vector<std::string> names;  // the parameters, in the order of use
    std::vector<double> losses;      // of each step
    std::vector<double> norms;
    ParameterValues gradients;   // raw, of the first step
    ParameterValues parameters;  // f32 masters under bf16, after the last step
};

// `job` is checked for `ranks` ranks of `team` threads; its vocabulary is set. Samples are proof_samples().
ProofRun proof_run(const Job& job, int ranks, int team, int steps);

// Rows of the global batch of a step, the same for every layout: random tokens; labels are masked, none in the first
// row and six in ten in the last, so that ranks have unequal numbers and a mean of means shows. Where the job separates
// documents, a fifth of the tokens begin one.
Samples proof_samples(const Job& job, std::int64_t step, RowRange rows);

}  // namespace cleave

// `cleave bench step MODEL|RUN.toml`: measures a training step (train/step_measure.h) and prints what its kernels cost
// and how close it is to the time of its matrix products. Under mpirun the ranks are its processes, and rank 0 prints.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "config/run_file.h"
#include "train/step_measure.h"

namespace cleave::cli {

struct BenchStepOptions {
    std::string model;              // a name of models/, or a run file
    std::vector<std::string> sets;  // key=value
    std::vector<TypedFlag> flags;
    int ranks = 0;  // 0: mpirun's, or 1 without it
    int rounds = 5;
    int warmup = 1;
    bool json = false;
};

// Returns an exit code. Throws UserError, RunError and RankFailure.
int bench_step(const BenchStepOptions& options, std::FILE* out);

}  // namespace cleave::cli

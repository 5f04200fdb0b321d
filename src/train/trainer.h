// The whole runs that commands ask for: training and generation. Both return the program's exit code; failures are
// thrown (base/error.h). Thread rule: called from the main thread, start the ranks themselves.
#pragma once

#include "train/generate_options.h"
#include "train/train_options.h"

namespace cleave {

int run_training(const TrainOptions& options);
int run_generation(const GenerateOptions& options);

}  // namespace cleave

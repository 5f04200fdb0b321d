// The whole run that `cleave train` asks for. Returns the program's exit code; failures are thrown (base/error.h).
// Thread rule: called from the main thread, starts the ranks itself.
#pragma once

#include "train/train_options.h"

namespace cleave {

int run_training(const TrainOptions& options);

}  // namespace cleave

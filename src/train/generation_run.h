// The whole run that `cleave generate` asks for. Returns the program's exit code; failures are thrown (base/error.h).
// Thread rule: called from the main thread.
#pragma once

#include "train/generate_options.h"

namespace cleave {

int run_generation(const GenerateOptions& options);

}  // namespace cleave

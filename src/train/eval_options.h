// What `cleave eval` hands to the trainer's room. Thread rule: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"

namespace cleave {

struct EvalOptions {
    std::string folder;        // of a run, a checkpoint file, or a Hugging Face folder
    std::string data;          // a text or a token file; empty: the run's data.path
    std::string part = "all";  // of a run's text: train, validation or all
    std::int64_t context = 0;  // tokens of a window; 0 = model.context
    std::int64_t stride = 0;   // tokens from window to window; 0 = context
    int ranks = 1;
    std::optional<DType> dtype;  // not set: the run's
    bool json = false;
};

}  // namespace cleave

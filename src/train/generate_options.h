// What `cleave generate` hands to the trainer's room. An option that is not set is taken from the run's [sample], or
// its train.dtype. Thread rule: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace cleave {

struct GenerateOptions {
    std::string folder;  // of a run, a checkpoint file, or a Hugging Face folder
    std::optional<std::string> prompt;
    std::optional<std::int64_t> tokens;
    std::optional<double> temperature;
    std::optional<std::int64_t> top_k;
    std::optional<double> top_p;
    std::optional<DType> dtype;
    std::int64_t seed = 1;
    std::vector<std::string> stops;  // words that end the text
    bool ignore_end = false;         // the model's end-of-text token does not
    bool cache = true;
    bool json = false;
};

}  // namespace cleave

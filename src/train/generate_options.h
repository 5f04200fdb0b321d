// What `cleave generate` hands to the trainer's room. An option that is not set is taken from the run's [sample].
// Thread rule: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

struct GenerateOptions {
    std::string folder;  // of a run, a checkpoint file, or a Hugging Face folder
    std::optional<std::string> prompt;
    std::optional<std::int64_t> tokens;
    std::optional<double> temperature;
    std::optional<std::int64_t> top_k;
    std::int64_t seed = 1;
    bool json = false;
};

}  // namespace cleave

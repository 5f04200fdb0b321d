// What is wrong with a model's shape, beyond the ranges of its keys.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "model/model_config.h"

namespace cleave {

// As check() of train/job_check.h; every number is within its key's range.
std::vector<std::string> check_model(const ModelConfig& model);

// The multiples of `unit` around `value`, as "24 or 36".
std::string nearest_multiples(std::int64_t value, std::int64_t unit);
// The divisors of `whole` nearest to `value`, below and above it, as "4 or 8".
std::string nearest_divisors(std::int64_t value, std::int64_t whole);

}  // namespace cleave

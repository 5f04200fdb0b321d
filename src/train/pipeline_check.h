// What is wrong with how a job cuts its model by depth.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/job.h"

namespace cleave {

// As check() of train/job_check.h; every number is within its key's range, and the batch divides over dp.
std::vector<std::string> check_pipeline(const Job& job, int dp);

// The numbers of "3,4,4,3"; nothing where it is no such list.
std::optional<std::vector<std::int64_t>> layer_counts(const std::string& text);

}  // namespace cleave

// What of a layout that is accepted does less than its keys may suggest. Nothing is silently ignored: training, dry
// run, `explain` and `memory` say it. Thread rule: a pure function.
#pragma once

#include <string>
#include <vector>

#include "train/job.h"

namespace cleave {

// A sentence each. `job` is checked.
std::vector<std::string> layout_notes(const Job& job, int dp);

}  // namespace cleave

// Why was my configuration refused? Everything that can be known before the first step is checked here, all at once.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "train/dataset.h"
#include "train/job.h"

namespace cleave {

// Each problem names the key, what was found, what would be accepted and, where there is one, the nearest value that
// fits. Without a dataset, what depends on the text is left out.
std::vector<std::string> check(const Job& job, int ranks, const Dataset* dataset = nullptr);

// Throws UserError with all problems, one a line, where there are any. `source` is the run file's name.
void throw_if_any(const std::vector<std::string>& problems, std::string_view source);

}  // namespace cleave

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

// What a step needs, without a text to learn from: no word about data.*, and model.vocabulary must be said.
std::vector<std::string> check_without_text(const Job& job, int ranks);

// What of it does not depend on any text: the model's shape, the layout, the schedule.
std::vector<std::string> check_layout(const Job& job, int ranks);

// Throws UserError with all of them, where there are any, and below them `remedy`, where that says something.
void throw_problems(const std::vector<std::string>& problems, const std::string& remedy = {});

}  // namespace cleave

// A run file (TOML) and `--set section.key=value` to a Job. All problems are found in one go; each names file and line
// (or
// --set), what was found and what would be accepted.
// Thread rule: pure functions but for reading the file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/job.h"

namespace cleave {

// Throws UserError with every problem. Unset run.folder becomes out/<the file's name without .toml>; data.path in the
// file is relative to the file's folder, in `sets` to the current one. A value in `sets` is written as in TOML; a text
// needs no quotes.
Job load_run_file(const std::filesystem::path& path, const std::vector<std::string>& sets);
// The same from a text; `source` is its name in messages, `path` the file that relative paths refer to.
Job parse_run(std::string_view text, const std::filesystem::path& path, const std::vector<std::string>& sets);

// Every key with its value: a run file that gives this job again.
std::string effective_run_file(const Job& job);
// A commented run file for a beginner, with every key and its default; valid as it stands but for the text's path.
std::string commented_run_file(const std::string& data_path);

}  // namespace cleave

// A run file (TOML) and `--set section.key=value` to a Job. All problems are found in one go; each names file and line
// (or
// --set), what was found and what would be accepted.
// Thread rule: pure functions but for reading the file.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/job.h"

namespace cleave {

// A command's option that stands for a key: --tp 4 for mesh.tp=4. Messages then name the option.
struct TypedFlag {
    std::string flag;  // "--tp"
    std::string key;
    std::string value;
};

struct RunFile {
    Job job;
    std::vector<std::string> problems;  // in the order of lines; keys that have one keep their default
    std::map<std::string, std::string, std::less<>> places;  // where a key was set: "my.toml:12", "--set", "--tp"
    std::set<std::string, std::less<>> refused;              // keys that have a problem

    // Problems that check() found, each with its place. Left out are those of keys that have one already, since nobody
    // asked for the default that they keep, and what has been said before.
    void add(const std::vector<std::string>& found);
    // A problem that check() found ("train.batch: found ..."), with the place where its key was set.
    std::string placed(const std::string& problem) const;
};

// Throws UserError where there is no such file. Unset run.folder becomes out/<the file's name without .toml>; data.path
// in the file is relative to the file's folder, in `sets` to the current one. A value in `sets` is written as in TOML,
// but a text needs no quotes.
// `flags` come before `sets`.
RunFile read_run_file(const std::filesystem::path& path, const std::vector<std::string>& sets,
                      const std::vector<TypedFlag>& flags = {});
// The same from a text; `path` names it in messages and is what relative paths refer to.
RunFile parse_run(std::string_view text, const std::filesystem::path& path, const std::vector<std::string>& sets,
                  const std::vector<TypedFlag>& flags = {});

// Every key with its value: a run file that gives this job again, from any folder: its paths are absolute.
std::string effective_run_file(const Job& job);
// A commented run file for a beginner, with every key and its default behind a #, but for the text's path.
std::string commented_run_file(const std::string& data_path);

}  // namespace cleave

// The models that the program knows by name: the files of models/, which the build puts into it. A model file is the
// [model] section of a run file.
// Thread rule: pure functions but for reading a file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_file.h"

namespace cleave {

struct ModelFile {
    std::string_view name;  // the file's, without .toml
    std::string_view text;
};
std::span<const ModelFile> model_files();  // by name

// `model`: a name, or a file's path. A name gives a run of one sequence a step, which `sets` and `flags` may change.
// Throws UserError where there is neither such a model nor such a file.
RunFile read_model_or_run_file(const std::string& model, const std::vector<std::string>& sets,
                               const std::vector<TypedFlag>& flags = {});
bool is_model_name(const std::string& model);

}  // namespace cleave

#include "config/models.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace cleave {

namespace {

std::string unknown(const std::string& model) {
    std::vector<std::string_view> names;
    std::string list;
    for (const ModelFile& file : model_files()) {
        names.push_back(file.name);
        list += fmt::format("{}{}", list.empty() ? "" : ", ", file.name);
    }
    const auto near = nearest(model, names);
    return fmt::format("there is no model or run file '{}'{}; accepted: a run file, or one of {}", model,
                       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), list);
}

}  // namespace

RunFile read_model_or_run_file(const std::string& model, const std::vector<std::string>& sets) {
    const auto files = model_files();
    const auto found = std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.name == model; });
    if (found != files.end()) {
        std::vector<std::string> all{"train.batch=1"};
        all.insert(all.end(), sets.begin(), sets.end());
        return parse_run(found->text, fmt::format("models/{}.toml", model), all);
    }
    if (!std::filesystem::exists(model)) throw UserError("{}", unknown(model));
    return read_run_file(model, sets);
}

}  // namespace cleave

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

namespace {

const ModelFile* named(const std::string& model) {
    const auto files = model_files();
    const auto found = std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.name == model; });
    return found == files.end() ? nullptr : &*found;
}

}  // namespace

bool is_model_name(const std::string& model) {
    return named(model) != nullptr;
}

RunFile read_model_or_run_file(const std::string& model, const std::vector<std::string>& sets,
                               const std::vector<TypedFlag>& flags) {
    const ModelFile* file = named(model);
    if (file == nullptr && !std::filesystem::exists(model)) throw UserError("{}", unknown(model));
    if (file == nullptr) return read_run_file(model, sets, flags);
    RunFile run = parse_run(file->text, fmt::format("models/{}.toml", model), sets, flags);
    if (!run.places.contains("train.batch")) run.job.train.batch = 1;
    return run;
}

}  // namespace cleave

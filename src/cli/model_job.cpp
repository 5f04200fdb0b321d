#include "cli/model_job.h"

#include <algorithm>

#include "base/error.h"
#include "config/models.h"
#include "train/dataset.h"
#include "train/job_check.h"
#include "train/weights_source.h"

namespace cleave::cli {

std::string layouts_instead(const RunFile& file, int ranks, RanksFrom from, bool with_ranks) {
    const auto named = [&](const LayoutSetting& setting) {
        const auto place = file.places.find(setting.key);
        const bool typed = place != file.places.end() && place->second.starts_with("--") && place->second != "--set";
        if (!typed) return as_set(setting);
        const std::string value = setting.key != "sequence_parallel" ? setting.value
                                  : setting.value == "true"          ? "on"
                                                                     : "off";
        return fmt::format("{} {}", place->second, value);
    };
    return nearest_layouts_text(nearest_layouts(file.job, ranks, from, file.refused), named, with_ranks);
}

Job model_job(const ModelJob& asked) {
    RunFile file = read_model_or_run_file(asked.model, asked.sets, asked.flags);
    // A model by name has one sequence a step: here one for each rank that shares the batch.
    if (is_model_name(asked.model) && !file.places.contains("train.batch"))
        file.job.train.batch = std::max(1, data_parallel_ranks(file.job, asked.ranks));
    file.add(adopt_model(file.job, [&](std::string_view key) { return file.places.contains(key); }));
    std::int64_t& words = file.job.model.vocabulary;
    if (words == 0 && !file.job.data.path.empty()) {
        const std::vector<std::string> problems = data_problems(file.job.data);
        if (problems.empty()) words = Dataset::open(file.job.data, std::nullopt).tokenizer().vocabulary();
        file.add(problems);
    }
    if (words == 0) words = asked.vocabulary;
    file.add(check_without_text(file.job, asked.ranks));
    if (!file.problems.empty()) throw_problems(file.problems, layouts_instead(file, asked.ranks, asked.ranks_from));
    return file.job;
}

}  // namespace cleave::cli

#include "cli/model_job.h"

#include <algorithm>

#include "base/error.h"
#include "config/models.h"
#include "train/dataset.h"
#include "train/job_check.h"
#include "train/weights_source.h"

namespace cleave::cli {

Job model_job(const std::string& model, const std::vector<std::string>& sets, int ranks, std::int64_t vocabulary) {
    RunFile file = read_model_or_run_file(model, sets);
    // A model by name has one sequence a step: here one for each rank that shares the batch.
    const bool named = std::any_of(model_files().begin(), model_files().end(),
                                   [&](const ModelFile& known) { return known.name == model; });
    const bool has_batch =
        std::any_of(sets.begin(), sets.end(), [](const std::string& set) { return set.starts_with("train.batch="); });
    if (named && !has_batch) file.job.train.batch = std::max(1, data_parallel_ranks(file.job, ranks));
    file.add(adopt_model(file.job, [&](std::string_view key) { return file.places.contains(key); }));
    std::int64_t& words = file.job.model.vocabulary;
    if (words == 0 && !file.job.data.path.empty()) {
        const std::vector<std::string> problems = data_problems(file.job.data);
        if (problems.empty()) words = Dataset::open(file.job.data, std::nullopt).tokenizer().vocabulary();
        file.add(problems);
    }
    if (words == 0) words = vocabulary;
    file.add(check_without_text(file.job, ranks));
    throw_problems(file.problems);
    return file.job;
}

}  // namespace cleave::cli

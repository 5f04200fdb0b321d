#include "cli/model_job.h"

#include "base/error.h"
#include "config/models.h"
#include "train/dataset.h"
#include "train/job_check.h"
#include "train/weights_source.h"

namespace cleave::cli {

Job model_job(const std::string& model, const std::vector<std::string>& sets, int ranks, std::int64_t vocabulary) {
    RunFile file = read_model_or_run_file(model, sets);
    file.add(adopt_model(file.job, [&](std::string_view key) { return file.places.contains(key); }));
    std::int64_t& words = file.job.model.vocabulary;
    if (words == 0 && data_problems(file.job.data).empty())
        words = Dataset::open(file.job.data, std::nullopt).tokenizer().vocabulary();
    if (words == 0) words = vocabulary;
    file.add(check_without_text(file.job, ranks));
    throw_problems(file.problems);
    return file.job;
}

}  // namespace cleave::cli

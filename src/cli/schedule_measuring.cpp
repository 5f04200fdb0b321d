#include "cli/schedule_measuring.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/words.h"
#include "cli/ranks_option.h"
#include "cli/schedule_measure_report.h"
#include "cli/schedule_report.h"
#include "train/job_check.h"

namespace cleave::cli {
namespace {

constexpr std::int64_t kMostWidth = 1 << 14;
constexpr std::int64_t kMostLayers = 1 << 12;
constexpr std::int64_t kMostBatch = 1 << 22;
constexpr int kPictureColumns = 80;  // where standard output is no terminal
// f32 sums in another order; a term that is missing or doubled is off by far more.
constexpr double kMostDifference = 1e-3;

void append_problems(const PipelineSchedule& schedule, const MlpConfig& model, std::vector<std::string>& problems) {
    for (const auto& [field, text] : problems_of(schedule, model))
        problems.push_back(
            fmt::format("{}: {}", field == ScheduleModelProblem::Field::layers ? "--layers" : "--batch", text));
}

MeasuredSchedule measured(PipelineSchedule schedule, const ScheduleMeasureOptions& options, bool by_formula) {
    fmt::print(stderr, "measuring {} with {}: {} steps, and one on one rank\n", schedule.name,
               counted(schedule.microbatches, "microbatch", "microbatches"), options.warmup + options.steps);
    ScheduleMeasurement result = measure_schedule(schedule, options);
    if (!(result.gradient_difference < kMostDifference))
        throw RunError(
            "{} with {}: the gradients are not those of one rank, the largest difference of a layer is {} "
            "of it; accepted: less than {}",
            schedule.name, counted(schedule.microbatches, "microbatch", "microbatches"),
            real_text(result.gradient_difference), kMostDifference);
    return with_prediction(std::move(schedule), options, std::move(result), by_formula);
}

// 1, 2, 4, ... and the last.
std::vector<int> doublings(int most) {
    std::vector<int> counts;
    for (std::int64_t m = 1; m < most; m *= 2) counts.push_back(static_cast<int>(m));
    counts.push_back(most);
    return counts;
}

}  // namespace

void ScheduleMeasuring::declare(Options& options) {
    options.section("measuring: the schedule runs, on a rank a stage, with an MLP of square matrices");
    options.flag("--measure", measure_, "measured beside predicted: pictures, busy shares, step time, overhead");
    options.flag("--sweep", sweep_, "with --measure: 1, 2, 4, ... microbatches up to --microbatches, in one table");
    options.integer("--width", width_, 2, kMostWidth, "of the matrices (default: 1024)");
    options.integer("--layers", layers_, 1, kMostLayers, "matrices, at least one a virtual stage (default: 8)");
    options.integer("--batch", batch_, 1, kMostBatch, "rows of a step, over all microbatches (default: 1024)");
}

ScheduleMeasureOptions ScheduleMeasuring::measure_options() const {
    ScheduleMeasureOptions options;
    if (width_ != 0) options.model.width = width_;
    if (layers_ != 0) options.model.layers = layers_;
    if (batch_ != 0) options.model.batch = batch_;
    return options;
}

void ScheduleMeasuring::check_alone(std::vector<std::string>& problems) const {
    for (const auto& [flag, given] :
         {std::pair{"--sweep", sweep_}, {"--width", width_ != 0}, {"--layers", layers_ != 0}, {"--batch", batch_ != 0}})
        if (given && !measure_) problems.push_back(fmt::format("{}: found without --measure; accepted: with it", flag));
}

void ScheduleMeasuring::check_model(const PipelineSchedule& schedule, std::vector<std::string>& problems) const {
    if (schedule.stages > kMostThreads)
        problems.push_back(
            fmt::format("--stages: found {} with --measure, where each is a thread of this process; "
                        "accepted: from 1 to {}",
                        schedule.stages, kMostThreads));
    append_problems(schedule, measure_options().model, problems);
}

void ScheduleMeasuring::run_once(const PipelineSchedule& schedule, bool by_formula, const Output& output) const {
    const MeasuredSchedule run = measured(schedule, measure_options(), by_formula);
    if (!output.svg.empty()) write_file(output.svg, measured_svg(run));
    if (!output.trace.empty()) write_file(output.trace, measured_trace(run));
    const int columns = output_columns() > 0 ? output_columns() : kPictureColumns;
    print(output.json ? measured_document(run).dump(2) + "\n" : measured_report(run, columns));
}

void ScheduleMeasuring::run_sweep(const SweepSource& source, int most, const Output& output) const {
    std::vector<PipelineSchedule> schedules;
    std::vector<std::string> left_out;
    std::vector<std::string> problems;
    for (const int m : doublings(most)) {
        const std::string refused = source.refused(m);
        if (!refused.empty()) {
            left_out.push_back(
                fmt::format("not measured with {}: {}", counted(m, "microbatch", "microbatches"), refused));
            continue;
        }
        schedules.push_back(source.make(m));
        std::vector<std::string> found;
        check_model(schedules.back(), found);
        for (std::string& problem : found)  // what is wrong with all of them, once
            if (std::find(problems.begin(), problems.end(), problem) == problems.end())
                problems.push_back(std::move(problem));
    }
    throw_problems(problems);
    std::vector<MeasuredSchedule> runs;
    runs.reserve(schedules.size());
    for (PipelineSchedule& schedule : schedules) runs.push_back(measured(std::move(schedule), measure_options(), true));
    if (!output.svg.empty()) write_file(output.svg, sweep_svg(runs));
    print(output.json ? sweep_document(runs, left_out).dump(2) + "\n" : sweep_report(runs, left_out));
}

}  // namespace cleave::cli

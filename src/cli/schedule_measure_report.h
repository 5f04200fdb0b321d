// What `cleave schedule --measure` says of a measured schedule, and `--sweep` of several. Times are in milliseconds.
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "train/schedule_measure.h"

namespace cleave::cli {

struct MeasuredSchedule {
    PipelineSchedule schedule;
    ScheduleMeasureOptions options;
    ScheduleMeasurement measured;
    Timeline predicted;  // simulated with the measured durations
    ScheduleFigures figures;
    std::optional<double> formula;  // the bubble of the total

    double predicted_busy() const { return 1 - figures.step.of_total; }
};

// Simulates with the durations that were measured.
MeasuredSchedule with_prediction(PipelineSchedule schedule, const ScheduleMeasureOptions& options,
                                 ScheduleMeasurement measured, bool by_formula);

// Pictures are at most `columns` wide.
std::string measured_report(const MeasuredSchedule& run, int columns);
Json measured_document(const MeasuredSchedule& run);
std::string measured_svg(const MeasuredSchedule& run);
std::string measured_trace(const MeasuredSchedule& run);

// Of one schedule with growing numbers of microbatches. `left_out`: a line for each that was not measured.
std::string sweep_report(const std::vector<MeasuredSchedule>& runs, const std::vector<std::string>& left_out);
Json sweep_document(const std::vector<MeasuredSchedule>& runs, const std::vector<std::string>& left_out);
std::string sweep_svg(const std::vector<MeasuredSchedule>& runs);

}  // namespace cleave::cli

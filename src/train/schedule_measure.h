// A pipeline schedule as it really runs: on ranks that are threads of this process, with the model of model/mlp.h.
//
// A step is timed after a barrier, from when the first stage begins until the last one has ended. The first steps are
// not counted: in them the libraries make what they keep, stage after stage, and pages are touched for the first time.
// Where the time of a stage goes, in the median step, adds up to that step:
//
//     compute   its actions, each from when its input is there
//     bubble    waiting with nothing to move, and the time before it begins and after it ends
//     transfer  copying messages, outside of actions
//     overhead  the rest: what performing the list costs
//
// The gradients of the last step are compared with those of one rank. Times are in milliseconds.
// Thread rule: as comm::run_ranks, which it calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/mlp.h"
#include "parallel/schedule_simulation.h"

namespace cleave {

struct ScheduleMeasureOptions {
    MlpConfig model;
    int warmup = 2;  // steps that are not counted
    int steps = 7;
};

struct StageSplit {
    double compute = 0;
    double bubble = 0;
    double transfer = 0;
    double overhead = 0;
    int actions = 0;  // performed: computing and messages
};

struct ScheduleMeasurement {
    int ranks = 1;
    int team = 1;  // threads of a rank
    int cores = 1;
    std::vector<double> steps;  // times, in order
    double step = 0;            // of the median step (of two the shorter), as all that follows
    Timeline timeline;
    std::vector<StageSplit> stages;
    // Means over all counted steps, stages and microbatches; where no backward is whole or none is split, its halves or
    // it follow from the other.
    ScheduleDurations durations;
    double overhead_us = 0;          // of an action: the median over all counted steps and stages, in microseconds
    double gradient_difference = 0;  // the largest over the layers, |difference| / |gradient|, Frobenius norms
    double loss = 0;

    bool shares_cores() const { return ranks * team > cores; }
    // All stages' computing over stages times step.
    double busy() const;
};

// The schedule has passed check_schedule, and problems_of() has nothing to say.
ScheduleMeasurement measure_schedule(const PipelineSchedule& schedule, const ScheduleMeasureOptions& options);

// What of the model does not go with the schedule.
struct ScheduleModelProblem {
    enum class Field { layers, batch };
    Field field;
    std::string text;  // "found 4; accepted: ..."
};
std::vector<ScheduleModelProblem> problems_of(const PipelineSchedule& schedule, const MlpConfig& model);

// Idle time over total time of a step by formula, of the kinds that have one: naive, gpipe, 1f1b, and interleaved where
// p divides m. Forwards take the same on all stages, and so do backwards.
//
//     gpipe, 1f1b  (p - 1) / (m + p - 1)      interleaved  (p - 1) / (v m + p - 1)      naive  (p - 1) / p
std::optional<double> bubble_formula(const PipelineSchedule& schedule);

// The gradients of all layers after a step, [layer][out * width + in], and the loss.
struct MlpGradients {
    std::vector<std::vector<double>> of_layer;
    double loss = 0;
};
// As a schedule makes them, on one rank a stage.
MlpGradients mlp_gradients(const PipelineSchedule& schedule, const MlpConfig& model);

}  // namespace cleave

// What `cleave schedule --measure` and `--sweep` add to the command: their options, the measurement, what is printed.
// Thread rule: the main thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "train/schedule_measure.h"

namespace cleave::cli {

class ScheduleMeasuring {
  public:
    void declare(Options& options);
    bool asked() const { return measure_; }
    bool sweeps() const { return sweep_; }
    // Add what is wrong: with the options by themselves, and with the model that they describe.
    void check_alone(std::vector<std::string>& problems) const;
    void check_model(const PipelineSchedule& schedule, std::vector<std::string>& problems) const;

    struct Output {
        std::string svg;  // files; empty: none
        std::string trace;
        bool json;
    };
    // `by_formula`: Cleave has made the schedule, so that the formula of its name holds.
    void run_once(const PipelineSchedule& schedule, bool by_formula, const Output& output) const;

    // The schedule with a number of microbatches; why there is none, or nothing.
    struct SweepSource {
        std::function<PipelineSchedule(int microbatches)> make;
        std::function<std::string(int microbatches)> refused;
    };
    // With 1, 2, 4, ... and `most` microbatches, for which there is one.
    void run_sweep(const SweepSource& source, int most, const Output& output) const;

  private:
    ScheduleMeasureOptions measure_options() const;

    bool measure_ = false;
    bool sweep_ = false;
    std::int64_t width_ = 0;  // 0: the default
    std::int64_t layers_ = 0;
    std::int64_t batch_ = 0;
};

}  // namespace cleave::cli

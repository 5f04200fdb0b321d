// One rank's part of `cleave train`: the loop over steps, evaluations, checkpoints, and what rank 0 tells the user.
// Thread rule: one rank's thread; the shared part is read-only but for `result`, which rank 0 writes.
#pragma once

#include <atomic>
#include <optional>

#include "engine/cpu_engine.h"
#include "train/checkpoint_file.h"
#include "train/dataset.h"
#include "train/job.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/sampler.h"
#include "train/step.h"
#include "train/weights_source.h"

namespace cleave {

struct TrainingResult {
    bool stopped = false;  // by the user, before the last step
    std::int64_t steps = 0;
    std::int64_t trained_steps = 0;  // of these, since this process began
    double train_loss = 0;
    double validation_loss = 0;
    double tokens_per_s = 0;  // of training, evaluations and checkpoints not counted
    double step_time_s = 0;
    double seconds = 0;         // of everything
    double exposed_comm_s = 0;  // of rank 0, mean of a step (engine/trace.h)
    std::int64_t parameters = 0;
    std::vector<BytesByKind> peak_bytes;  // of each rank
    std::string sample;
};

// What all ranks of a run share.
struct SharedRun {
    const Job& job;  // the vocabulary is set
    const Mesh& mesh;
    const Dataset& dataset;
    const CheckpointFile* checkpoint;  // to resume from, or null
    const RunFolder* folder;           // null where rank 0 is elsewhere
    int team;
    TrainingResult result;                   // rank 0 writes it
    std::atomic<bool> stopped{false};        // agreed by all ranks
    const WeightsSource* weights = nullptr;  // to begin with, where there is no checkpoint; null: random ones
};

class TrainingRun {
  public:
    TrainingRun(SharedRun& shared, comm::Communicator& world);
    void run();

    // The parts of run(), to be measured one by one.
    void begin();                        // metrics file, and what the log says first
    void train_step(std::int64_t step);  // counted from 1; with its line of metrics and of progress
    void evaluate_now(bool at_end);

  private:
    bool first() const { return world_.rank() == 0; }
    void announce();
    static void announce_weights(const WeightsSource& weights);
    void report_underflow(std::int64_t step, const Underflow& underflow, Json& line);
    void show(std::int64_t step, const StepResult& result, double learning_rate);
    double evaluate_part(Part part, std::int64_t evaluation);
    double evaluate_all(Part part);
    void save();
    void write_trace(std::int64_t step);
    bool due(std::int64_t every) const { return every > 0 && done_ % every == 0; }
    bool stop_agreed();
    void sample();
    void summarize();
    std::vector<BytesByKind> gather_peaks();

    SharedRun& shared_;
    const Job& job_;
    comm::Communicator& world_;
    CpuEngine engine_;
    Transformer model_;
    TrainStep step_;
    Sampler sampler_;
    int dp_;
    int dp_rank_;
    std::int64_t microbatch_;
    std::int64_t accumulation_;  // of a full batch
    std::int64_t done_ = 0;      // steps
    std::int64_t saved_ = -1;    // the step of the newest checkpoint
    std::vector<Samples> microbatches_;
    std::optional<Metrics> metrics_;  // rank 0
    double train_seconds_ = 0;
    double exposed_seconds_ = 0;  // of communication, in steps
    std::int64_t trained_tokens_ = 0;
    std::int64_t timed_steps_ = 0;
    bool warned_of_underflow_ = false;
    double started_ = 0;  // the run, in seconds of the steady clock
};

}  // namespace cleave

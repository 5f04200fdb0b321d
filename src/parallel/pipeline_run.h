// Performs one stage's list of a schedule (parallel/schedule.h): forwards, backwards or their halves, and the messages
// between them. What a chunk computes is the caller's; reduction and update, at the end of the list, are too.
//
// The first virtual stage reads the microbatch, the last one ends in a scalar from which its backward begins.
// Thread rule: one rank's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/tape.h"
#include "parallel/pipeline_traffic.h"
#include "parallel/schedule_simulation.h"

namespace cleave {

// What the chunks of a rank's stage are.
struct ChunkProgram {
    std::function<std::unique_ptr<Tape>(int microbatch)> make_tape;
    // A microbatch through a chunk. `input`: what the virtual stage before made, empty in the first. Gives what the
    // next one takes, or the scalar.
    std::function<Tensor(Tape& tape, int chunk, int microbatch, const Tensor& input)> forward;
    // Memory for what goes from chunk to chunk, placed as forward gives it.
    std::function<Tensor()> alloc;
    // Of the gradients; `last`: the chunk's are complete after this backward.
    std::function<Tape::GradientHooks(bool last)> hooks;
};

class PipelineRun {
  public:
    PipelineRun(Engine& engine, const PipelineSchedule& schedule, ChunkProgram program);

    // Any action but reduce and optimizer.
    void perform(const ScheduleAction& action);
    // When all is done: waits for what was sent.
    void finish() { traffic_.finish(); }

    // From now on the computing's times are added to `times`: each from when its input is there. `edge`: called at both
    // ends of each, for what is counted beside the time.
    void measure(std::vector<TimedAction>& times, std::function<void()> edge = {}) {
        times_ = &times;
        edge_ = std::move(edge);
    }

  private:
    using Direction = PipelineTraffic::Direction;
    // A microbatch in a chunk, between its forward and the end of its backward.
    struct InFlight {
        std::unique_ptr<Tape> tape;
        Tensor input;   // empty in the first virtual stage
        Tensor output;  // or the scalar
    };
    void compute(const ScheduleAction& action);
    void forward(const ScheduleAction& action);
    void backward(const ScheduleAction& action);
    void weight_gradient(const ScheduleAction& action);
    InFlight& in_flight(const ScheduleAction& action);
    void mark(const ScheduleAction& action);
    void begin_computing();
    int virtual_stage(const ScheduleAction& action) const;
    bool is_first(const ScheduleAction& action) const { return virtual_stage(action) == 0; }
    bool is_last(const ScheduleAction& action) const { return virtual_stage(action) == schedule_.virtual_stages() - 1; }

    Engine& engine_;
    const PipelineSchedule& schedule_;
    ChunkProgram program_;
    PipelineTraffic traffic_;
    int stage_;
    std::map<std::pair<int, int>, InFlight> in_flight_;  // by chunk and microbatch
    std::vector<TimedAction>* times_ = nullptr;
    std::function<void()> edge_;
    double started_ = 0;  // the action that computes
};

}  // namespace cleave

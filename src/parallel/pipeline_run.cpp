#include "parallel/pipeline_run.h"

#include "base/clock.h"
#include "base/error.h"
#include "parallel/schedule_actions.h"

namespace cleave {

PipelineRun::PipelineRun(Engine& engine, const PipelineSchedule& schedule, ChunkProgram program)
    : engine_(engine),
      schedule_(schedule),
      program_(std::move(program)),
      traffic_(engine, schedule, program_.alloc),
      stage_(stage_of_pipeline(engine.mesh(), engine.rank())) {}

int PipelineRun::virtual_stage(const ScheduleAction& action) const {
    return schedule_.virtual_stage_of(stage_, action.chunk);
}

void PipelineRun::perform(const ScheduleAction& action) {
    const auto [type, microbatch, chunk, last] = action;
    switch (type) {
        case ActionType::send_activation: return traffic_.send(Direction::activations, chunk, microbatch);
        case ActionType::receive_activation: return traffic_.receive(Direction::activations, chunk, microbatch);
        case ActionType::send_gradient: return traffic_.send(Direction::gradients, chunk, microbatch);
        case ActionType::receive_gradient: return traffic_.receive(Direction::gradients, chunk, microbatch);
        default: return compute(action);
    }
}

void PipelineRun::compute(const ScheduleAction& action) {
    mark(action);
    switch (action.type) {
        case ActionType::forward: forward(action); break;
        case ActionType::backward:
        case ActionType::input_gradient: backward(action); break;
        case ActionType::weight_gradient: weight_gradient(action); break;
        default: CLEAVE_CHECK(false, "{} is the caller's", words_of(action.type));
    }
    if (times_ == nullptr) return;
    times_->push_back({action, started_, seconds()});
    if (edge_) edge_();
}

void PipelineRun::begin_computing() {
    if (times_ == nullptr) return;
    if (edge_) edge_();
    started_ = seconds();
}

void PipelineRun::mark(const ScheduleAction& action) {
    engine_.mark(schedule_.chunks == 1
                     ? fmt::format("{} {}", words_of(action.type), action.microbatch)
                     : fmt::format("{} {} chunk {}", words_of(action.type), action.microbatch, action.chunk));
}

PipelineRun::InFlight& PipelineRun::in_flight(const ScheduleAction& action) {
    const auto at = in_flight_.find({action.chunk, action.microbatch});
    CLEAVE_CHECK(at != in_flight_.end(), "{} without its forward", text_of(action));
    return at->second;
}

void PipelineRun::forward(const ScheduleAction& action) {
    InFlight flight;
    flight.tape = program_.make_tape(action.microbatch);
    if (!is_first(action)) {
        flight.input = traffic_.take(Direction::activations, action.chunk, action.microbatch);
        flight.tape->watch(flight.input);
    }
    begin_computing();
    flight.output = program_.forward(*flight.tape, action.chunk, action.microbatch, flight.input);
    if (!is_last(action)) traffic_.put(Direction::activations, action.chunk, action.microbatch, flight.output);
    in_flight_.emplace(std::pair(action.chunk, action.microbatch), std::move(flight));
}

// Both halves, or the input half alone.
void PipelineRun::backward(const ScheduleAction& action) {
    InFlight& flight = in_flight(action);
    Tape& tape = *flight.tape;
    const Tensor output = std::exchange(flight.output, {});
    Tensor gradient;
    if (!is_last(action)) gradient = traffic_.take(Direction::gradients, action.chunk, action.microbatch);
    begin_computing();
    if (is_last(action)) gradient = tape.gradient_of_loss(output);
    const bool whole = action.type == ActionType::backward;
    if (whole)
        tape.backward_from(output, std::move(gradient), program_.hooks(action.last_backward));
    else
        tape.backward_inputs_from(output, std::move(gradient));
    if (!is_first(action))
        traffic_.put(Direction::gradients, action.chunk, action.microbatch, tape.take_watched(flight.input));
    flight.input = {};
    if (whole) in_flight_.erase({action.chunk, action.microbatch});
}

void PipelineRun::weight_gradient(const ScheduleAction& action) {
    begin_computing();
    in_flight(action).tape->run_weight_halves(program_.hooks(action.last_backward));
    in_flight_.erase({action.chunk, action.microbatch});
}

}  // namespace cleave

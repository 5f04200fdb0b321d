// A schedule is data: for each stage of a pipeline the list of actions that it performs in a step. The step interprets
// this list; it is drawn, checked and simulated from the same one.
//
// The model is cut by depth into *virtual stages*. A stage (one coordinate of the axis pp) holds one or more of them,
// its *chunks*, and *routes* say which:
//
//     round_robin  chunk c of stage s is virtual stage c p + s (one chunk: virtual stage s)
//     vee          two chunks: virtual stages s and 2 p - 1 - s, so that the first stage holds both ends of the model
//     mirrored     two chunks and p virtual stages, each held twice: chunk 0 is virtual stage s, chunk 1 is p - 1 - s;
//                  the first half of the microbatches goes through the chunks 0, the second half through the chunks 1
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

struct ScheduleAction {
    enum class Type : std::uint8_t {
        forward,             // of one microbatch through one chunk
        backward,            // input and weight gradients of it
        input_gradient,      // its first half alone: the gradient of the chunk's input
        weight_gradient,     // the other half, after its own input_gradient
        send_activation,     // the chunk's output to the next virtual stage, issued
        receive_activation,  // the chunk's input from the one before, issued: its forward waits for it
        send_gradient,       // that of the chunk's input to the virtual stage before, issued
        receive_gradient,    // that of the chunk's output from the next one, issued: its backward waits for it
        reduce,              // gradients to the optimizer's placement
        optimizer,           // norm, clipping, update
    };
    Type type;
    int microbatch = -1;
    int chunk = 0;               // of this stage
    bool last_backward = false;  // the chunk's gradients are complete with it: their reduction may be issued
    friend bool operator==(const ScheduleAction&, const ScheduleAction&) = default;
};

// Of one stage.
using Schedule = std::vector<ScheduleAction>;

enum class Route : std::uint8_t { round_robin, vee, mirrored };

struct PipelineSchedule {
    std::string name;
    int stages = 1;
    int chunks = 1;  // a stage
    int microbatches = 1;
    Route route = Route::round_robin;
    std::vector<Schedule> of_stage;

    int virtual_stages() const { return route == Route::mirrored ? stages : stages * chunks; }
    int virtual_stage_of(int stage, int chunk) const;
    struct Place {
        int stage;
        int chunk;
        friend bool operator==(const Place&, const Place&) = default;
    };
    // Where a microbatch meets a virtual stage.
    Place place_of(int virtual_stage, int microbatch) const;
};

// One stage: each microbatch forward and backward in turn, so that one microbatch's activations live at a time.
Schedule single_stage_schedule(int microbatches);

}  // namespace cleave

// A schedule is data: the list of actions that one stage performs in a step. The step interprets it; it is drawn,
// checked and simulated from the same list. Thread rule: values.
#pragma once

#include <cstdint>
#include <vector>

namespace cleave {

struct ScheduleAction {
    enum class Type : std::uint8_t {
        forward,    // of one microbatch
        backward,   // input and weight halves of one microbatch
        reduce,     // gradients to the optimizer's placement
        optimizer,  // norm, clipping, update
    };
    Type type;
    int microbatch = -1;
    bool last_backward = false;  // gradients are complete with it: their reduction may be issued
    friend bool operator==(const ScheduleAction&, const ScheduleAction&) = default;
};

using Schedule = std::vector<ScheduleAction>;

// One stage: each microbatch forward and backward in turn, so that one microbatch's activations live at a time.
Schedule single_stage_schedule(int microbatches);

}  // namespace cleave

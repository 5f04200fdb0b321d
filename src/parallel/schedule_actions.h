// What is known of the actions of schedules (schedule.h) one by one, and where the data of their dependencies lies.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "parallel/schedule.h"

namespace cleave {

using ActionType = ScheduleAction::Type;

inline constexpr int kActionTypes = 10;

inline bool is_compute(ActionType type) {
    return type <= ActionType::weight_gradient;
}
inline bool is_message(ActionType type) {
    return type >= ActionType::send_activation && type <= ActionType::receive_gradient;
}
inline bool is_send(ActionType type) {
    return type == ActionType::send_activation || type == ActionType::send_gradient;
}
// Takes the gradient of the chunk's output and makes that of its input.
inline bool passes_gradient_on(ActionType type) {
    return type == ActionType::backward || type == ActionType::input_gradient;
}
// The last that is done with a microbatch in a chunk: what its forward saved is freed after it.
inline bool makes_weight_gradients(ActionType type) {
    return type == ActionType::backward || type == ActionType::weight_gradient;
}

// "forward", "send of an activation"
std::string_view words_of(ActionType type);
// As files of schedules write them: F B I W, SA RA SG RG, R and O.
std::string_view letters_of(ActionType type);
// "F3", in the chunks after the first "F3@1"; "R" and "O".
std::string text_of(const ScheduleAction& action);

// The number of a pair (microbatch, virtual stage), from 0.
inline std::size_t cell_of(const PipelineSchedule& schedule, int virtual_stage, int microbatch) {
    return static_cast<std::size_t>(microbatch) * static_cast<std::size_t>(schedule.virtual_stages()) +
           static_cast<std::size_t>(virtual_stage);
}
inline std::size_t cells_of(const PipelineSchedule& schedule) {
    return static_cast<std::size_t>(schedule.microbatches) * static_cast<std::size_t>(schedule.virtual_stages());
}

// The virtual stage that an action's tensor goes to or comes from, or -1 where the model ends: the next one for a
// forward and for messages of activations sent and of gradients received, the one before for the others.
int neighbour_of(const PipelineSchedule& schedule, int virtual_stage, ActionType type);

// The largest number of microbatches, times chunks, whose forward is done and whose weight gradients are not yet: what
// each stage holds activations of at most. (After a microbatch's input gradient alone its activations still count.)
std::vector<int> peak_held(const PipelineSchedule& schedule);

struct MessageCount {
    std::size_t activations = 0;
    std::size_t gradients = 0;
};
MessageCount messages_of(const PipelineSchedule& schedule);  // sends of all stages

}  // namespace cleave

// The order of computing of each kind of schedule (schedule_kinds.h), stage by stage. Options are right.
// Thread rule: pure functions.
#pragma once

#include "parallel/schedule_actions.h"

namespace cleave {

struct ScheduleDurations;

using ComputeOrder = std::vector<Schedule>;  // of each stage, computing alone

ComputeOrder naive_order(int stages, int microbatches);
ComputeOrder gpipe_order(int stages, int microbatches);
ComputeOrder one_forward_one_backward_order(int stages, int microbatches);
ComputeOrder zero_bubble_h1_order(int stages, int microbatches);
ComputeOrder zero_bubble_h2_order(int stages, int microbatches);

// The sizes of the groups in which microbatches go through the chunks of the interleaved schedule: as many groups as
// have p or more, none larger than another by more than one, the larger first.
std::vector<int> interleaved_groups(int stages, int microbatches);
ComputeOrder interleaved_order(int stages, int microbatches, int chunks);

ComputeOrder zero_bubble_vee_order(int stages, int microbatches);
ComputeOrder dualpipe_order(int stages, int microbatches);
ComputeOrder dualpipe_vee_order(int stages, int microbatches);

// How much later, in units of one action, a stage does what its neighbour upstream did: forwards down and up the vee,
// then backwards down (from the first stage) and up.
struct VeeOffsets {
    int forward_down;
    int forward_up;
    int backward_down;
    int backward_up;
};
inline constexpr VeeOffsets kVHalfOffsets = {1, 2, 1, 2};
inline constexpr VeeOffsets kVMinOffsets = {1, 1, 1, 1};
ComputeOrder controllable_memory_order(int stages, int microbatches, const VeeOffsets& offsets,
                                       const ScheduleDurations& durations);

// `schedule`, with forwards and input gradients alone, and weight gradients put into it: where a stage is idle long
// enough, before a forward that would hold more than `most_held` activations, or at the end. List scheduling by time.
void place_weight_gradients(PipelineSchedule& schedule, int most_held, const ScheduleDurations& durations);

}  // namespace cleave

// The schedules that Cleave makes, by name. F, B, I, W: forward, backward, its input gradient, its weight gradient.
//
//     naive        one microbatch at a time
//     gpipe        all forwards, then all backwards. Huang et al., "GPipe", 2019
//     1f1b         stage s of p does p - s forwards, then a backward and a forward in turn. Also pipedream-flush.
//                  Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021
//     interleaved  1F1B with several chunks a stage. Narayanan et al., "Efficient Large-Scale Language Model Training
//     on
//                  GPU Clusters Using Megatron-LM", 2021, section 2.2. Microbatches go in groups of p or more, so that
//                  their number need not be a multiple of p: "The Llama 3 Herd of Models", 2024, section 3.3.2
//     zb-h1        1F1B whose W of stage s stands s microbatches behind its I: as many activations as 1F1B's first
//     stage zb-h2        2 (p - s) - 1 forwards first and W 2 s microbatches behind: no idle time between a stage's
//     first and
//                  last action. Both: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 2
//     zbv          two chunks in a vee, no more activations than 1F1B. The same paper, section 6
//     v-half       two chunks in a vee, about half the activations of 1F1B
//     v-min        ... about a third. Both: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024
//     dualpipe     two directions at once, each stage with two parts of the model. DeepSeek-AI, "DeepSeek-V3 Technical
//                  Report", 2024, section 3.2.1, and the repository DualPipe
//     dualpipev    its half, folded to a vee. The same repository
//
// All but v-half and v-min are fixed orders. Those two repeat a fixed order of F and I, and their W are put into it by
// list scheduling: from the durations, a W fills idle time where it fits, or makes room for a forward.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/schedule_simulation.h"

namespace cleave {

struct ScheduleKind {
    std::string_view name;
    std::string_view alias;    // or empty
    std::string_view summary;  // one line
    Route route;
    int chunks;  // of a stage; where `any_chunks`, the number by default, and others from 2 are possible
    bool any_chunks;
    bool splits_backward;  // into input and weight gradients, all of it or a part
};
std::span<const ScheduleKind> schedule_kinds();
// By name or alias; null where there is none.
const ScheduleKind* find_schedule_kind(std::string_view name);
// The names, for messages: "naive, gpipe, ...".
std::string schedule_kind_names();

// What is made, read and drawn: a hundred times what pipelines have.
inline constexpr int kMostScheduleStages = 4096;
inline constexpr std::int64_t kMostScheduleCells = 1 << 20;  // microbatches times virtual stages

struct ScheduleOptions {
    std::string kind = "1f1b";
    int stages = 1;
    int microbatches = 1;
    int chunks = 0;  // of a stage; 0: the kind's own
    ScheduleDurations durations;
};

// What of the options is wrong, for callers that have their own names of the fields.
struct ScheduleOptionProblem {
    enum class Field { kind, stages, microbatches, chunks };
    Field field;
    std::string text;  // "found 3; accepted with dualpipe: even numbers"
};
std::vector<ScheduleOptionProblem> problems_of(const ScheduleOptions& options);

// A whole schedule: computing, messages, reduction and update. Throws UserError with all problems.
PipelineSchedule make_schedule(const ScheduleOptions& options);

}  // namespace cleave

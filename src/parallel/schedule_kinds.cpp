#include "parallel/schedule_kinds.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/words.h"
#include "parallel/schedule_messages.h"
#include "parallel/schedule_orders.h"

namespace cleave {
namespace {

constexpr std::array kScheduleKinds = {
    ScheduleKind{"naive", "", "one microbatch at a time", Route::round_robin, 1, false, false},
    ScheduleKind{"gpipe", "", "all forwards, then all backwards", Route::round_robin, 1, false, false},
    ScheduleKind{"1f1b", "pipedream-flush", "a forward and a backward in turn: stage s holds p - s microbatches",
                 Route::round_robin, 1, false, false},
    ScheduleKind{"interleaved", "", "1f1b with several chunks a stage: a smaller bubble, more messages",
                 Route::round_robin, 2, true, false},
    ScheduleKind{"zb-h1", "", "zero bubble: weight gradients fill a part of it, memory as 1f1b", Route::round_robin, 1,
                 false, true},
    ScheduleKind{"zb-h2", "", "zero bubble: nearly none, twice the memory", Route::round_robin, 1, false, true},
    ScheduleKind{"zbv", "", "zero bubble on a vee: nearly none, memory as 1f1b", Route::vee, 2, false, true},
    ScheduleKind{"v-half", "", "on a vee, half the memory of 1f1b", Route::vee, 2, false, true},
    ScheduleKind{"v-min", "", "on a vee, a third of the memory of 1f1b", Route::vee, 2, false, true},
    ScheduleKind{"dualpipe", "", "two directions at once, each stage with two parts of the model", Route::mirrored, 2,
                 false, true},
    ScheduleKind{"dualpipev", "", "the half of dualpipe, folded to a vee", Route::vee, 2, false, true},
};

using Field = ScheduleOptionProblem::Field;

class OptionProblems {
  public:
    explicit OptionProblems(const ScheduleOptions& options) : options_(options) {}

    std::vector<ScheduleOptionProblem> all() {
        const ScheduleKind* kind = find_schedule_kind(options_.kind);
        if (kind == nullptr) {
            add(Field::kind, "found '{}'; accepted: {}", options_.kind, schedule_kind_names());
            return std::move(problems_);
        }
        if (options_.stages < 1 || options_.stages > kMostScheduleStages)
            add(Field::stages, "found {}; accepted: from 1 to {}", options_.stages, kMostScheduleStages);
        if (options_.microbatches < 1) add(Field::microbatches, "found {}; accepted: from 1", options_.microbatches);
        check_chunks(*kind);
        if (kind->name == "dualpipe") check_dual(true);
        if (kind->name == "dualpipev") check_dual(false);
        if (problems_.empty()) check_size(*kind);
        return std::move(problems_);
    }

  private:
    template <class... Args>
    void add(Field field, fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back({field, fmt::format(format, std::forward<Args>(args)...)});
    }

    void check_chunks(const ScheduleKind& kind) {
        const int chunks = options_.chunks;
        if (chunks == 0 || (kind.any_chunks ? chunks >= 2 : chunks == kind.chunks)) return;
        if (kind.any_chunks)
            add(Field::chunks, "found {}; accepted with {}: from 2 (one chunk a stage is 1f1b)", chunks, kind.name);
        else
            add(Field::chunks, "found {}, but a stage of {} has {}; accepted: {}{}", chunks, kind.name,
                counted(kind.chunks, "chunk"), kind.chunks, kind.chunks == 1 ? ", or the schedule interleaved" : "");
    }

    void check_dual(bool mirrored) {
        const int stages = std::max(1, options_.stages);
        const std::string_view name = mirrored ? "dualpipe" : "dualpipev";
        if (mirrored && stages % 2 != 0)
            add(Field::stages, "found {}; accepted with dualpipe: even numbers, {} or {}", stages,
                std::max(2, stages - 1), stages + (stages == 1 ? 3 : 1));
        const int microbatches = options_.microbatches;
        const std::string accepted =
            fmt::format("{} from {} (twice the stages)", mirrored ? "even numbers" : "numbers", 2 * stages);
        if (mirrored && microbatches % 2 != 0)
            add(Field::microbatches, "found {}, which is odd: half of them go in each direction; accepted with {}: {}",
                microbatches, name, accepted);
        else if (microbatches < 2 * stages)
            add(Field::microbatches, "found {}; accepted with {} and {}: {}", microbatches, name,
                counted(stages, "stage"), accepted);
    }

    void check_size(const ScheduleKind& kind) {
        const std::int64_t chunks = options_.chunks == 0 ? kind.chunks : options_.chunks;
        const std::int64_t virtual_stages = options_.stages * (kind.route == Route::mirrored ? 1 : chunks);
        if (virtual_stages > kMostScheduleCells / options_.microbatches)
            add(Field::microbatches, "found {} with {} virtual stages; accepted: at most {} of both multiplied",
                options_.microbatches, virtual_stages, kMostScheduleCells);
    }

    const ScheduleOptions& options_;
    std::vector<ScheduleOptionProblem> problems_;
};

ComputeOrder compute_order(const ScheduleKind& kind, const ScheduleOptions& options, int chunks) {
    const int p = options.stages;
    const int m = options.microbatches;
    if (kind.name == "naive") return naive_order(p, m);
    if (kind.name == "gpipe") return gpipe_order(p, m);
    if (kind.name == "1f1b") return one_forward_one_backward_order(p, m);
    if (kind.name == "interleaved") return interleaved_order(p, m, chunks);
    if (kind.name == "zb-h1") return zero_bubble_h1_order(p, m);
    if (kind.name == "zb-h2") return zero_bubble_h2_order(p, m);
    if (kind.name == "zbv") return zero_bubble_vee_order(p, m);
    if (kind.name == "v-half") return controllable_memory_order(p, m, kVHalfOffsets, options.durations);
    if (kind.name == "v-min") return controllable_memory_order(p, m, kVMinOffsets, options.durations);
    if (kind.name == "dualpipe") return dualpipe_order(p, m);
    CLEAVE_CHECK(kind.name == "dualpipev", "{}", kind.name);
    return dualpipe_vee_order(p, m);
}

std::string_view name_of(Field field) {
    switch (field) {
        case Field::kind: return "schedule";
        case Field::stages: return "stages";
        case Field::microbatches: return "microbatches";
        case Field::chunks: return "chunks";
    }
    CLEAVE_CHECK(false, "no such field");
}

}  // namespace

std::span<const ScheduleKind> schedule_kinds() {
    return kScheduleKinds;
}

const ScheduleKind* find_schedule_kind(std::string_view name) {
    for (const ScheduleKind& kind : kScheduleKinds)
        if (name == kind.name || (!kind.alias.empty() && name == kind.alias)) return &kind;
    return nullptr;
}

std::string schedule_kind_names() {
    std::string names;
    for (const ScheduleKind& kind : kScheduleKinds) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
    return names;
}

std::vector<ScheduleOptionProblem> problems_of(const ScheduleOptions& options) {
    return OptionProblems(options).all();
}

PipelineSchedule make_schedule(const ScheduleOptions& options) {
    std::string problems;
    for (const auto& [field, text] : problems_of(options))
        problems += fmt::format("{}{}: {}", problems.empty() ? "" : "\n", name_of(field), text);
    if (!problems.empty()) throw UserError(problems);
    const ScheduleKind& kind = *find_schedule_kind(options.kind);
    const int chunks = options.chunks == 0 ? kind.chunks : options.chunks;
    PipelineSchedule schedule{std::string(kind.name), options.stages, chunks, options.microbatches, kind.route, {}};
    schedule.of_stage = compute_order(kind, options, chunks);
    add_messages(schedule, options.durations);
    finish_step(schedule);
    return schedule;
}

}  // namespace cleave

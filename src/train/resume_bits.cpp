#include "train/resume_bits.h"

#include <fmt/format.h>

#include <bit>
#include <utility>
#include <vector>

#include "base/words.h"
#include "parallel/schedule_kinds.h"

namespace cleave {

namespace {

constexpr std::string_view kUnknown = "not recorded";
constexpr const char* kPlainOrder = "microbatch by microbatch";

using Sources = std::vector<std::pair<std::string_view, std::string>>;

std::string recorded(const Json& environment, std::string_view key) {
    const Json* found = environment.find(key);
    return found == nullptr ? std::string(kUnknown) : found->dump();
}

// Whether a rank's sum of a step's gradients is one over ranks for each of several microbatches.
bool sums_each_microbatch(const Job& job, int dp) {
    return job.zero.stage >= 2 && job.zero.reduce == ZeroReduce::microbatch &&
           accumulation(job, dp, job.train.batch) > 1;
}

// The ranks of a group, whose sum comes before that of the groups, where this is another order than without groups.
std::string summed_first(const Job& job, int dp) {
    const int group = job.zero.stage == 0 || job.zero.group == 0 ? dp : job.zero.group;
    const bool same = group == dp || std::has_single_bit(static_cast<unsigned>(group));
    return same ? "0" : fmt::format("{}", group);
}

// In which order a parameter's gradient is added, as far as the pipeline says: microbatch after microbatch, but where
// two stages own it, or two chunks of a stage use it in the order of the schedule.
std::string adding_order(const Job& job) {
    const std::string table = std::string(kPlainOrder) + ", the tied table's two uses ";
    if (job.mesh.pp == 1 && !job.model.tied_embeddings) return kPlainOrder;
    if (job.mesh.pp == 1) return table + "in turn";
    // A file that is gone, of a checkpoint's job, is another order.
    if (!job.pipeline.schedule_file.empty()) return "as " + job.pipeline.schedule_file + " says";
    const ScheduleKind* kind = find_schedule_kind(job.pipeline.schedule);
    if (kind == nullptr) return job.pipeline.schedule;
    if (kind->route == Route::mirrored) return "in two halves of the microbatches";
    if (!job.model.tied_embeddings) return kPlainOrder;
    if (kind->route == Route::round_robin) return table + "apart";
    return table + fmt::format("as {} of {} has them", kind->name, counted(job.mesh.pp, "stage"));
}

// `job` may be of a checkpoint whose environment is lost: then `dp` is a guess that need not divide its batch.
void add_of_batch(Sources& sources, const Job& job, int dp) {
    const std::int64_t smallest = job.train.ramp_batch == 0 ? job.train.batch : job.train.ramp_batch;
    if (smallest % dp != 0 || job.train.batch / dp % microbatch_size(job, dp) != 0) return;
    sources.emplace_back("sequences in a pass", fmt::format("{}", microbatch_size(job, dp)));
    sources.emplace_back("gradients summed over dp",
                         sums_each_microbatch(job, dp) ? "after each microbatch" : "once a step");
    sources.emplace_back("zero.group", summed_first(job, dp));
}

Sources sources_of(const Job& job, const Json& environment) {
    Sources sources;
    sources.emplace_back("build", recorded(environment, "build"));
    sources.emplace_back("instruction set", recorded(environment, "instruction_set"));
    // f64 has products of our own, which do not depend on the team (kernels/gemm.h).
    if (job.train.dtype != DType::f64) sources.emplace_back("threads of a rank", recorded(environment, "team"));
    sources.emplace_back("dp", recorded(environment, "ranks"));
    sources.emplace_back("gradients added", adding_order(job));
    for (const auto& [axis, size] : {std::pair{"cp", job.mesh.cp}, {"tp", job.mesh.tp}})
        sources.emplace_back(axis, fmt::format("{}", size));
    sources.emplace_back("sequence_parallel", fmt::format("{}", job.sequence_parallel));
    sources.emplace_back("model.attention",
                         job.model.attention == AttentionKind::fused ? "\"fused\"" : "\"materialised\"");
    const Json* dp = environment.find("ranks");
    const bool known = dp != nullptr && dp->integer() != nullptr && *dp->integer() > 0;
    add_of_batch(sources, job, known ? static_cast<int>(*dp->integer()) : std::max(1, job.mesh.dp));
    return sources;
}

}  // namespace

Environment this_environment(int dp, int team) {
    Environment environment;
    environment.build = fmt::format("cleave {}, compiler {}", CLEAVE_VERSION, __VERSION__);
    environment.instruction_set = __builtin_cpu_supports("avx512f") ? "avx512"
                                  : __builtin_cpu_supports("avx2")  ? "avx2"
                                                                    : "sse";
    environment.dp = dp;
    environment.team = team;
    return environment;
}

Json to_json(const Environment& environment) {
    return Json{{"build", environment.build},
                {"instruction_set", environment.instruction_set},
                {"ranks", environment.dp},
                {"team", environment.team}};
}

std::string bits_difference(const Job& saved, const Json& saved_environment, const Job& now, const Environment& here) {
    const Sources before = sources_of(saved, saved_environment);
    std::string text;
    for (const auto& [name, is] : sources_of(now, to_json(here)))
        for (const auto& [same, was] : before)
            if (same == name && was != is)
                text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : "; ", name, was, is);
    return text;
}

}  // namespace cleave

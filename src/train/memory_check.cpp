#include "train/memory_check.h"

#include "base/error.h"
#include "base/words.h"
#include "comm/launch.h"
#include "train/dry_run_report.h"
#include "train/step.h"

namespace cleave {

namespace {

// Tokens and labels of a rank's whole batch lie outside the arena.
std::int64_t sample_bytes(const Job& job, int dp) {
    const std::int64_t lists = job.data.separate_documents ? 3 : 2;
    return job.train.batch / dp * job.model.context * lists * static_cast<std::int64_t>(sizeof(std::int32_t));
}

std::string kinds_text(const RankPlan& plan, std::int64_t samples, std::int64_t overhead) {
    std::string text;
    const auto add = [&](std::string_view name, std::int64_t bytes) {
        if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, bytes_text(bytes));
    };
    for (int kind = 0; kind < kMemoryKinds; ++kind)
        add(name_of(static_cast<MemoryKind>(kind)), plan.at_peak[static_cast<std::size_t>(kind)]);
    add("samples", samples);
    add("the rank itself", overhead);
    return text;
}

std::string remedy(const Job& job, const RankPlan& plan, std::int64_t samples, std::int64_t overhead, int dp,
                   int local_ranks) {
    const auto of = [&](MemoryKind kind) { return plan.at_peak[static_cast<std::size_t>(kind)]; };
    const std::int64_t of_tokens = of(MemoryKind::activations) + of(MemoryKind::workspace);
    const std::string fewer = local_ranks > 1 ? ", or fewer ranks" : "";
    if (overhead > plan.peak_bytes + samples) return "fewer ranks";
    if (samples > plan.peak_bytes) return fmt::format("lower train.batch ({})", job.train.batch);
    const std::string cut =
        dp > 1 && job.zero.stage < 3 ? fmt::format(", a higher zero.stage (now {})", job.zero.stage) : "";
    if (2 * of_tokens < plan.peak_bytes) return "a smaller model (model.width, model.layers)" + cut + fewer;
    return fmt::format("lower train.microbatch (now {} of {}; it changes no result), model.context or model.width{}",
                       counted(microbatch_size(job, dp), "sequence"), counted(job.model.context, "token"), fewer);
}

}  // namespace

std::int64_t rank_overhead_bytes(int ranks) {
    if (ranks == 1) return 0;  // of the program, not of a rank
    // Resident bytes of runs/tiny.toml on 8 to 256 ranks: 2.2 MB a rank at 64, 4.4 at 128, 13.4 at 256.
    constexpr std::int64_t kRank = 2 << 20, kPair = 224;
    return kRank + kPair * ranks * ranks;
}

void check_memory(const Job& job, int dp, const RankPlan& plan, int local_ranks, const AvailableMemory& available) {
    const std::int64_t samples = sample_bytes(job, dp);
    const std::int64_t overhead = rank_overhead_bytes(dp);
    const std::int64_t each = plan.extent_bytes + samples + overhead;
    if (each <= available.bytes / local_ranks) return;
    const std::string ranks = local_ranks == 1 ? "" : fmt::format(" on each of {} ranks of this machine", local_ranks);
    throw UserError(
        "not enough memory: a step needs {}{} ({}), and {} are available ({}); {}. --dry-run plans without it",
        bytes_text(each), ranks, kinds_text(plan, samples, overhead), bytes_text(available.bytes), available.limit,
        remedy(job, plan, samples, overhead, dp, local_ranks));
}

void check_memory(const Job& job, int ranks, int team) {
    const bool mpi = comm::under_mpirun();
    const auto transport = mpi ? comm::TransportKind::mpi : comm::TransportKind::inproc;
    check_memory(job, data_parallel_ranks(job, ranks), memory_plan(job, ranks, transport, team),
                 mpi ? comm::process_place().local_count : ranks, available_memory());
}

}  // namespace cleave

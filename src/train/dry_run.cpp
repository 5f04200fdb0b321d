#include "train/dry_run.h"

#include <algorithm>

#include "base/error.h"
#include "engine/virtual_engine.h"
#include "train/step.h"

namespace cleave {

Mesh mesh_of(const Job& job, int ranks) {
    return Mesh(
        {{"pp", job.mesh.pp}, {"dp", data_parallel_ranks(job, ranks)}, {"cp", job.mesh.cp}, {"tp", job.mesh.tp}});
}

namespace {

// From here on one microbatch more adds what the one before it added: the first makes the sums of the losses, the last
// sends the gradients.
constexpr std::int64_t kRegular = 3;

// What every microbatch of the job holds, in numbers.
Samples counted_samples(const Job& job, int dp) {
    Samples samples;
    samples.tokens_counted = microbatch_size(job, dp) * job.model.context;
    samples.first_visible_counted = job.data.separate_documents;
    return samples;
}

// oneDNN counts the rows of a product in 31 bits, and beyond them ends the process.
void check_tokens(const Job& job, int dp) {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const std::int64_t rows = microbatch_size(job, dp);
    if (rows > kMost / job.model.context)
        throw UserError(
            "train.microbatch: found {} sequences of {} tokens in one pass of a rank; accepted: at most {} tokens, "
            "that is "
            "1 to {} sequences",
            rows, job.model.context, kMost, kMost / job.model.context);
}

// One rank's step of so many microbatches.
RankPlan plan_of(const Job& job, const Mesh& mesh, int rank, comm::TransportKind transport, int team,
                 std::int64_t microbatches, bool traced) {
    check_tokens(job, mesh.size(mesh.axis("dp")));
    const Samples samples = counted_samples(job, mesh.size(mesh.axis("dp")));
    VirtualEngine engine(mesh, rank, transport, team);
    Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
    TrainStep step(engine, model, job);
    engine.reset_peaks();
    if (traced) engine.trace().start();
    step.run(std::vector<Samples>(static_cast<std::size_t>(microbatches), samples), 1, job.train.lr);
    RankPlan plan;
    plan.rank = rank;
    plan.coordinates = mesh.coordinates(rank);
    plan.peak_bytes = engine.ledger().peak();
    plan.at_peak = engine.ledger().at_peak();
    plan.extent_bytes = engine.allocator().peak_extent();
    for (const Event& event : engine.trace().events()) {
        if (event.type == EventType::issue) plan.bytes_sent[event.name] += event.bytes;
        if (event.type != EventType::launch) continue;
        plan.flops += event.flops;
        plan.kernel_bytes += static_cast<double>(event.bytes);
        ++plan.launches;
    }
    return plan;
}

// Makes of the plan of `kRegular` microbatches that of `count`; `before` is that of one microbatch less.
void extend(RankPlan& plan, const RankPlan& before, std::int64_t count) {
    const std::int64_t more = count - kRegular;
    plan.launches += more * (plan.launches - before.launches);
    plan.flops += static_cast<double>(more) * (plan.flops - before.flops);
    plan.kernel_bytes += static_cast<double>(more) * (plan.kernel_bytes - before.kernel_bytes);
    for (auto& [collective, bytes] : plan.bytes_sent) {
        const auto found = before.bytes_sent.find(collective);
        bytes += more * (bytes - (found == before.bytes_sent.end() ? 0 : found->second));
    }
}

}  // namespace

std::vector<RankPlan> dry_run(const Job& job, int ranks, comm::TransportKind transport, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    const std::int64_t count = accumulation(job, mesh.size(mesh.axis("dp")), job.train.batch);
    std::vector<RankPlan> plans;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
        plans.push_back(plan_of(job, mesh, rank, transport, team, std::min(count, kRegular), true));
        if (count > kRegular)
            extend(plans.back(), plan_of(job, mesh, rank, transport, team, kRegular - 1, true), count);
    }
    return plans;
}

RankPlan memory_plan(const Job& job, int ranks, comm::TransportKind transport, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    const std::int64_t count = accumulation(job, mesh.size(mesh.axis("dp")), job.train.batch);
    return plan_of(job, mesh, 0, transport, team, std::min(count, kRegular), false);
}

}  // namespace cleave

#include "train/dry_run.h"

#include <algorithm>

#include "base/error.h"
#include "engine/virtual_engine.h"
#include "train/step.h"

namespace cleave {

namespace {

// From here on one microbatch more adds what the one before it added: the first makes the sums of the losses, the last
// sends the gradients.
constexpr std::int64_t kRegular = 3;

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

// What a checkpoint takes: a bucket whole at a time, and a parameter of it.
void save_dry(Transformer& model, const TrainStep& step) {
    const auto nothing = [](const Parameter&, const Tensor&) {};
    const ParameterBuckets& buckets = model.store().buckets();
    buckets.visit(model.store().masters(), nothing);
    for (const Optimizer::State& state : step.optimizer().states()) buckets.visit(state.flats, nothing);
}

// One rank's step of so many microbatches.
RankPlan plan_of(const Job& job, const Mesh& mesh, int rank, comm::TransportKind transport, int team,
                 std::int64_t microbatches, bool traced) {
    check_tokens(job, mesh.size(mesh.axis("dp")));
    VirtualEngine engine(mesh, rank, transport, team);
    Transformer model = model_of(job, engine);
    TrainStep step(engine, model, job);
    model.initialize(static_cast<std::uint64_t>(job.train.seed));
    if (traced) engine.trace().start();
    step.run(counted_microbatches(job, mesh.size(mesh.axis("dp")), microbatches), 1, job.train.lr);
    engine.trace().stop();
    save_dry(model, step);
    RankPlan plan;
    plan.rank = rank;
    plan.coordinates = mesh.coordinates(rank);
    for (const ModelPart& part : model.chunks()) plan.layers += part.end - part.begin;
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

// In a pipeline the order of the microbatches is the schedule's: all of them.
std::int64_t planned_microbatches(const Job& job, std::int64_t count) {
    return job.mesh.pp > 1 ? count : std::min(count, kRegular);
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

std::vector<Samples> counted_microbatches(const Job& job, int dp, std::int64_t count) {
    Samples samples;
    samples.tokens_counted = microbatch_size(job, dp) * job.model.context;
    samples.first_visible_counted = job.data.separate_documents;
    return std::vector<Samples>(static_cast<std::size_t>(count), samples);
}

RankPlan rank_plan(const Job& job, const Mesh& mesh, int rank, comm::TransportKind transport, int team) {
    const std::int64_t count = accumulation(job, mesh.size(mesh.axis("dp")), job.train.batch);
    const std::int64_t planned = planned_microbatches(job, count);
    RankPlan plan = plan_of(job, mesh, rank, transport, team, planned, true);
    if (count > planned) extend(plan, plan_of(job, mesh, rank, transport, team, kRegular - 1, true), count);
    return plan;
}

std::vector<RankPlan> dry_run(const Job& job, int ranks, comm::TransportKind transport, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    std::vector<RankPlan> plans;
    plans.reserve(static_cast<std::size_t>(mesh.world_size()));
    for (int rank = 0; rank < mesh.world_size(); ++rank) plans.push_back(rank_plan(job, mesh, rank, transport, team));
    return plans;
}

std::vector<RankPlan> stage_plans(const Job& job, int ranks, comm::TransportKind transport, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    const std::int64_t count = accumulation(job, mesh.size(mesh.axis("dp")), job.train.batch);
    std::vector<RankPlan> plans;
    for (const int rank : mesh.group(mesh.world_size() - 1, {pipeline_axis(mesh)}))
        plans.push_back(plan_of(job, mesh, rank, transport, team, planned_microbatches(job, count), false));
    return plans;
}

RankPlan memory_plan(const Job& job, int ranks, comm::TransportKind transport, int team) {
    const auto plans = stage_plans(job, ranks, transport, team);
    return *std::max_element(plans.begin(), plans.end(),
                             [](const RankPlan& a, const RankPlan& b) { return a.extent_bytes < b.extent_bytes; });
}

}  // namespace cleave

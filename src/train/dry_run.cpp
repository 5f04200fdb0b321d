#include "train/dry_run.h"

#include "engine/virtual_engine.h"
#include "train/step.h"

namespace cleave {

Mesh mesh_of(const Job& job, int ranks) {
    return Mesh(
        {{"pp", job.mesh.pp}, {"dp", data_parallel_ranks(job, ranks)}, {"cp", job.mesh.cp}, {"tp", job.mesh.tp}});
}

std::vector<RankPlan> dry_run(const Job& job, int ranks, comm::TransportKind transport, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    const int dp = mesh.size(mesh.axis("dp"));
    const auto ids = static_cast<std::size_t>(microbatch_size(job, dp) * job.model.context);
    Samples samples;
    samples.tokens.resize(ids);
    samples.labels.resize(ids);
    if (job.data.separate_documents) samples.first_visible.resize(ids);
    const std::vector<Samples> microbatches(static_cast<std::size_t>(accumulation(job, dp, job.train.batch)), samples);
    std::vector<RankPlan> plans;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
        VirtualEngine engine(mesh, rank, transport, team);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        TrainStep step(engine, model, job);
        engine.reset_peaks();
        engine.trace().start();
        step.run(microbatches, 1, job.train.lr);
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
        plans.push_back(std::move(plan));
    }
    return plans;
}

}  // namespace cleave

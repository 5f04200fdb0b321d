// Runs one step on the executing and the virtual engine and compares what both recorded ("Executed and virtual",
// ARCHITECTURE.md). Thread rule: as comm::run_ranks.
#pragma once

#include <gtest/gtest.h>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "engine/virtual_engine.h"
#include "train/job_layout.h"
#include "train/step.h"

namespace cleave::test {

struct Recorded {
    std::vector<Event> events;
    BytesByKind at_peak{};
    BytesByKind peak_by_kind{};
    std::int64_t peak = 0;        // of the ledger
    std::int64_t arena_peak = 0;  // of the allocator, as asked for
    std::int64_t arena_extent = 0;
    std::int64_t sent = 0;  // executed: by the transport; virtual: by the trace
};

// A rank's part of the batch, in so many microbatches.
inline std::vector<Samples> samples_of(const ModelConfig& config, const Job& job, int dp, int accumulation) {
    const auto count = static_cast<std::size_t>(job.train.batch / dp / accumulation * config.context);
    Samples samples;
    samples.tokens.assign(count, 3);
    samples.labels.assign(count, 5);
    if (job.data.separate_documents) samples.first_visible.assign(count, 0);
    return std::vector<Samples>(static_cast<std::size_t>(accumulation), samples);
}

// `begins`: called before the step.
inline Recorded record(
    Engine& engine, const ModelConfig& config, const Job& job, int accumulation,
    const std::function<void()>& begins = [] {}) {
    Transformer model = model_of(job, engine);
    model.initialize(1);
    TrainStep step(engine, model, job);
    begins();
    engine.trace().start();
    step.run(samples_of(config, job, engine.mesh().size(engine.mesh().axis("dp")), accumulation), 1, 1e-3);
    Recorded recorded;
    recorded.events = engine.trace().events();
    recorded.at_peak = engine.ledger().at_peak();
    recorded.peak_by_kind = engine.ledger().peak_by_kind();
    recorded.peak = engine.ledger().peak();
    return recorded;
}

// On dp x job.mesh.pp x job.mesh.tp ranks.
inline void expect_agreement(const ModelConfig& config, Job job, int dp, int accumulation) {
    job.model = config;  // whose heads the mesh must fit
    const int ranks = dp * job.mesh.pp * job.mesh.tp;
    const Mesh mesh = mesh_of(job, ranks);
    std::vector<Recorded> executed(static_cast<std::size_t>(ranks));
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Recorded& own = executed[static_cast<std::size_t>(world.rank())];
        comm::Stats before;
        own = record(engine, config, job, accumulation, [&] { before = world.stats(); });
        own.arena_peak = engine.allocator().peak_live_bytes();
        own.arena_extent = engine.allocator().peak_extent();
        const comm::Stats stats = world.stats();
        for (std::size_t i = 0; i < stats.sent.size(); ++i) own.sent += stats.sent[i] - before.sent[i];
    });
    for (int rank = 0; rank < ranks; ++rank) {
        VirtualEngine engine(mesh, rank, comm::TransportKind::inproc, 1);
        const Recorded planned = record(engine, config, job, accumulation);
        const Recorded& real = executed[static_cast<std::size_t>(rank)];
        ASSERT_EQ(planned.events.size(), real.events.size());
        std::int64_t planned_sent = 0;
        for (std::size_t i = 0; i < planned.events.size(); ++i) {
            const Event& a = planned.events[i];
            const Event& b = real.events[i];
            ASSERT_EQ(a.type, b.type) << i;
            ASSERT_EQ(a.name, b.name) << i;
            ASSERT_EQ(a.detail, b.detail) << i;
            ASSERT_EQ(a.placement, b.placement) << i;
            ASSERT_EQ(a.bytes, b.bytes) << a.name << " " << a.detail;
            ASSERT_EQ(a.flops, b.flops) << a.name << " " << a.detail;
            ASSERT_EQ(a.live_bytes, b.live_bytes) << a.name << " " << a.detail;
            if (a.type == EventType::issue) planned_sent += a.bytes;
        }
        EXPECT_EQ(planned_sent, real.sent) << "the transport counted other bytes";
        EXPECT_EQ(planned.peak, real.peak);
        EXPECT_EQ(planned.at_peak, real.at_peak);
        EXPECT_EQ(planned.peak_by_kind, real.peak_by_kind);
        EXPECT_EQ(planned.peak, real.arena_peak) << "the arena measured another high-water mark";
        EXPECT_EQ(engine.allocator().peak_extent(), real.arena_extent);
    }
}

}  // namespace cleave::test

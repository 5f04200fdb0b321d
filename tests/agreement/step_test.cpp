// "Executed and virtual": the virtual engine runs the same step without storage. Equal means: the order of events per
// rank and per stream, the ledger in program order, and, measured by other means than the virtual side declares, the
// bytes that the transport moved and the arena's own high-water mark.
#include <gtest/gtest.h>

#include <mutex>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "engine/virtual_engine.h"
#include "support/variants.h"
#include "train/step.h"

namespace cleave {
namespace {

struct Recorded {
    std::vector<Event> events;
    BytesByKind at_peak{};
    BytesByKind peak_by_kind{};
    std::int64_t peak = 0;        // of the ledger
    std::int64_t arena_peak = 0;  // of the allocator, as asked for
    std::int64_t arena_extent = 0;
    std::int64_t sent = 0;  // executed: by the transport; virtual: by the trace
};

Job job_of(DType dtype) {
    Job job;
    job.train.dtype = dtype;
    job.train.batch = 24;
    job.train.bucket_bytes = 1 << 13;
    return job;
}

ModelConfig model_of(test::Variant variant) {
    ModelConfig m;
    m.layers = 2;
    m.heads = 4;
    m.width = 32;
    m.context = 16;
    m.vocabulary = 31;
    make_variant(m, variant);
    return m;
}

Recorded record(Engine& engine, const ModelConfig& config, const Job& job, int accumulation) {
    Transformer model(engine, config, data_parallel_layouts(engine.mesh()), job.train.dtype);
    model.initialize(1);
    TrainStep step(engine, model, job);
    const std::int64_t rows = job.train.batch / engine.mesh().world_size() / accumulation;
    Samples samples;
    samples.tokens.assign(static_cast<std::size_t>(rows * config.context), 3);
    samples.labels.assign(static_cast<std::size_t>(rows * config.context), 5);
    if (job.data.separate_documents) samples.first_visible.assign(static_cast<std::size_t>(rows * config.context), 0);
    const std::vector<Samples> microbatches(static_cast<std::size_t>(accumulation), samples);
    engine.trace().start();
    step.run(microbatches, 1, 1e-3);
    Recorded recorded;
    recorded.events = engine.trace().events();
    recorded.at_peak = engine.ledger().at_peak();
    recorded.peak_by_kind = engine.ledger().peak_by_kind();
    recorded.peak = engine.ledger().peak();
    return recorded;
}

void expect_agreement(const ModelConfig& config, const Job& job, int dp, int accumulation) {
    const Mesh mesh({{"pp", 1}, {"dp", dp}, {"cp", 1}, {"tp", 1}});
    std::vector<Recorded> executed(static_cast<std::size_t>(dp));
    comm::LaunchOptions launch;
    launch.ranks = dp;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Recorded& own = executed[static_cast<std::size_t>(world.rank())];
        own = record(engine, config, job, accumulation);
        own.arena_peak = engine.allocator().peak_live_bytes();
        own.arena_extent = engine.allocator().peak_extent();
        const comm::Stats stats = world.stats();
        for (auto bytes : stats.sent) own.sent += bytes;
    });
    for (int rank = 0; rank < dp; ++rank) {
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

class Agreement : public testing::TestWithParam<std::tuple<test::Variant, DType, int, int, Recompute>> {};

TEST_P(Agreement, VirtualStepEqualsTheExecutedOne) {
    const auto [variant, dtype, dp, accumulation, recompute] = GetParam();
    Job job = job_of(dtype);
    job.recompute = recompute;
    expect_agreement(model_of(variant), job, dp, accumulation);
}

// What adds to a step: z-loss, documents kept apart, a window, counters.
TEST(AgreementOfFeatures, VirtualStepEqualsTheExecutedOne) {
    for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama})
        for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
            for (const auto& [dp, accumulation] : {std::pair{1, 3}, {2, 1}}) {
                Job job = job_of(DType::bf16);
                job.recompute = recompute;
                job.train.z_loss = 1e-4;
                job.train.count_underflow = true;
                job.data.separate_documents = true;
                ModelConfig config = model_of(variant);
                config.window = 5;
                expect_agreement(config, job, dp, accumulation);
            }
}

INSTANTIATE_TEST_SUITE_P(Steps, Agreement,
                         testing::Combine(testing::ValuesIn(test::kVariants), testing::Values(DType::f32, DType::bf16),
                                          testing::Values(1, 2, 4), testing::Values(1, 3),
                                          testing::Values(Recompute::none, Recompute::selective, Recompute::full)),
                         [](const auto& info) {
                             return test::name_of(std::get<0>(info.param)) +
                                    std::string(name_of(std::get<1>(info.param))) + "Dp" +
                                    std::to_string(std::get<2>(info.param)) + "Accumulation" +
                                    std::to_string(std::get<3>(info.param)) + "Recompute" +
                                    std::to_string(static_cast<int>(std::get<4>(info.param)));
                         });

}  // namespace
}  // namespace cleave

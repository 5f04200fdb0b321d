// What the process really holds of the machine's memory, against what the arena says: the resident set that a step adds
// is the arenas' extent, within 5 %.
//
// The base is the resident set when all ranks have their engine and nothing else: program, libraries, threads, reserved
// but untouched arenas. Beyond it stand the arenas' pages and, inside the 5 %, what oneDNN keeps for its primitives.
#include <gtest/gtest.h>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "resident.h"
#include "train/dry_run.h"
#include "train/step.h"

namespace cleave::test {
namespace {

class SlowResidentMemory : public testing::TestWithParam<int> {};

TEST_P(SlowResidentMemory, IsTheArenasExtentWithinFivePercent) {
    const int ranks = GetParam();
    Job job;
    job.train.batch = 4;
    job.model.layers = 4;
    job.model.heads = 8;
    job.model.width = 512;
    job.model.context = 64;
    job.model.vocabulary = 1000;
    const Mesh mesh = mesh_of(job, ranks);
    Samples samples;
    samples.tokens.assign(static_cast<std::size_t>(job.train.batch / ranks * job.model.context), 3);
    samples.labels = samples.tokens;
    std::int64_t base = 0;
    std::int64_t held = 0;
    std::vector<std::int64_t> extents(static_cast<std::size_t>(ranks));
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        const auto measured = [&](std::int64_t& bytes) {
            world.barrier().wait();
            if (world.rank() == 0) bytes = resident_bytes();
            world.barrier().wait();
        };
        measured(base);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        model.initialize(1);
        TrainStep step(engine, model, job);
        for (int i = 1; i <= 2; ++i) step.run({samples}, i, 1e-3);
        extents[static_cast<std::size_t>(world.rank())] = engine.allocator().peak_extent();
        measured(held);
    });
    std::int64_t extent = 0;
    for (std::int64_t bytes : extents) extent += bytes;
    EXPECT_GT(extent, std::int64_t{ranks} * 200'000'000) << "too small a model to judge by";
    EXPECT_NEAR(static_cast<double>(held - base), static_cast<double>(extent), 0.05 * static_cast<double>(extent))
        << "beyond a base of " << base << " bytes";
    // And the extent is what the dry run says before anything is allocated.
    const auto plans = dry_run(job, ranks, comm::TransportKind::inproc, 1);
    for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(plans[static_cast<std::size_t>(rank)].extent_bytes, extents[static_cast<std::size_t>(rank)]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SlowResidentMemory, testing::Values(1, 2));

}  // namespace
}  // namespace cleave::test

// A long run holds no more than a short one: after a warm-up, a thousand steps leave the process's resident set and the
// arena's extent where they were.
#include <gtest/gtest.h>
#include <malloc.h>

#include "allocations.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "resident.h"
#include "train/dry_run.h"
#include "train/step.h"

namespace cleave::test {
namespace {

struct Held {
    std::int64_t resident = 0;
    std::int64_t extent = 0;
    std::int64_t heap = 0;  // bytes that malloc has given out and not taken back
};

// A leak of 100 bytes in each step would be found in the heap, of a page in every tenth step in the resident set.
constexpr int kGrowthWarmUp = 100;
constexpr int kGrowthSteps = 1000;
constexpr std::int64_t kHeapSlack = 64 << 10;
constexpr std::int64_t kResidentSlack = 256 << 10;

class SlowGrowth : public testing::TestWithParam<int> {};

TEST_P(SlowGrowth, AThousandStepsHoldNoMoreThanAHundred) {
    const int ranks = GetParam();
    Job job;
    job.train.batch = 4;
    job.train.microbatch = 1;
    job.model.layers = 1;
    job.model.heads = 2;
    job.model.width = 16;
    job.model.context = 16;
    job.model.vocabulary = 32;
    job.model.dropout = 0.1;
    const Mesh mesh = mesh_of(job, ranks);
    Samples samples;
    for (int i = 0; i < job.model.context; ++i) samples.tokens.push_back(i * i % 32);
    samples.labels = samples.tokens;
    const std::vector<Samples> microbatches(static_cast<std::size_t>(4 / ranks), samples);
    Held before;
    Held after;
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        model.initialize(1);
        TrainStep step(engine, model, job);
        const auto run = [&](int first, int last, Held& held) {
            for (int i = first; i <= last; ++i) step.run(microbatches, i, 1e-3);
            world.barrier().wait();
            if (world.rank() == 0)
                held = {resident_bytes(), engine.allocator().peak_extent(),
                        static_cast<std::int64_t>(mallinfo2().uordblks)};
            world.barrier().wait();
        };
        run(1, kGrowthWarmUp, before);
        run(kGrowthWarmUp + 1, kGrowthWarmUp + kGrowthSteps, after);
    });
    EXPECT_EQ(after.extent, before.extent);
    EXPECT_LE(after.resident, before.resident + kResidentSlack);
    EXPECT_LE(after.heap, before.heap + kHeapSlack);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SlowGrowth, testing::Values(1, 2));

}  // namespace
}  // namespace cleave::test

// Whether a run fits: at the very byte, and what the memory_refusal says.
#include "train/memory_check.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Job checked_job() {
    Job job;
    job.model.layers = 2;
    job.model.heads = 2;
    job.model.width = 32;
    job.model.context = 16;
    job.model.vocabulary = 64;
    job.train.batch = 1024;
    return job;
}

std::string memory_refusal(const Job& job, int ranks, std::int64_t available) {
    const RankPlan plan = memory_plan(job, ranks, comm::TransportKind::inproc, 1);
    return user_error([&] { check_memory(job, ranks, plan, ranks, {available, "a test"}); });
}

TEST(MemoryCheck, TheRanksOfAMachineMustFitTogether) {
    const Job job = checked_job();
    for (const int ranks : {1, 2, 4}) {
        const RankPlan plan = memory_plan(job, ranks, comm::TransportKind::inproc, 1);
        // Tokens and labels of the whole batch lie beside the arena, 4 bytes each.
        const std::int64_t all =
            ranks * (plan.extent_bytes + rank_overhead_bytes(ranks)) + job.train.batch * job.model.context * 8;
        EXPECT_EQ(memory_refusal(job, ranks, all), "") << ranks;
        EXPECT_NE(memory_refusal(job, ranks, all - ranks), "") << ranks;
    }
}

TEST(MemoryCheck, TheRefusalNamesBytesByKindAndWhatToLower) {
    EXPECT_THAT(memory_refusal(checked_job(), 2, 1 << 20),
                AllOf(HasSubstr("on each of 2 ranks"), HasSubstr("parameters"), HasSubstr("activations"),
                      HasSubstr("samples"), HasSubstr("1.05 MB are available (a test)"),
                      HasSubstr("train.microbatch (now 512 sequences of 16 tokens"), HasSubstr("fewer ranks")));
    Job large = checked_job();
    large.train.batch = 1;
    large.model.width = 1024;
    EXPECT_THAT(memory_refusal(large, 1, 1 << 20), HasSubstr("a smaller model"));
    // Thousands of ranks on one machine hold more for each other than for the model.
    Job thin = checked_job();
    thin.train.batch = 4096;
    EXPECT_THAT(memory_refusal(thin, 4096, 24'000'000'000),
                AllOf(HasSubstr("the rank itself 3.76 GB"), HasSubstr("; fewer ranks.")));
    Job many = checked_job();
    many.train.batch = 1 << 24;
    many.train.microbatch = 1;
    EXPECT_THAT(memory_refusal(many, 1, 1 << 20), HasSubstr("lower train.batch (16777216)"));
}

}  // namespace
}  // namespace cleave

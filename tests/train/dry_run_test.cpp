// The dry run against closed formulas of a GPT-2 step, and what its report says. (Against the executed step, event by
// event: tests/agreement.)
#include "train/dry_run.h"

#include <gmock/gmock.h>

#include <numeric>

#include "support/scratch.h"
#include "train/dry_run_report.h"

namespace cleave {
namespace {

using testing::HasSubstr;
using testing::Not;

Job small_job() {
    Job job;
    job.model.layers = 3;
    job.model.heads = 4;
    job.model.width = 32;
    job.model.context = 16;
    job.model.vocabulary = 64;
    job.train.batch = 24;
    return job;
}

std::int64_t parameters_of(const ModelConfig& m) {
    const std::int64_t w = m.width;
    return (m.vocabulary + m.context) * w + m.layers * (12 * w * w + 13 * w) + 2 * w;
}

TEST(DryRun, OperationsOfAStepAreThoseOfItsProductsAndAttention) {
    const Job job = small_job();
    for (int ranks : {1, 2, 4})
        for (const RankPlan& plan : dry_run(job, ranks, comm::TransportKind::inproc, 1)) {
            const auto tokens = static_cast<double>(job.train.batch / ranks * job.model.context);
            const auto w = static_cast<double>(job.model.width);
            const auto layers = static_cast<double>(job.model.layers);
            // 2 operations a weight and token forward, 4 backward; the output product with the tied table.
            const double products = 6 * tokens * (layers * 12 * w * w + static_cast<double>(job.model.vocabulary) * w);
            EXPECT_GT(plan.flops, products) << ranks << " ranks";
            EXPECT_LT(plan.flops, 1.35 * products) << ranks << " ranks";  // attention, norms, loss, optimizer
            EXPECT_GT(plan.launches, 0);
        }
}

TEST(DryRun, AStepSendsItsGradientsOnceWhateverTheAccumulation) {
    Job job = small_job();
    job.model.width = 256;  // so that biases and gains, padded to whole blocks, are few
    for (std::int64_t microbatch : {0, 6, 2}) {
        job.train.microbatch = microbatch;
        std::int64_t sent = 0;
        for (const RankPlan& plan : dry_run(job, 2, comm::TransportKind::inproc, 1))
            for (const auto& [collective, bytes] : plan.bytes_sent) {
                EXPECT_EQ(collective, "all_reduce");
                sent += bytes;
            }
        // Two ranks: 2 (n - 1) G. Beside the gradients only the count of labels and the loss; padding under 1 %.
        const auto gradients = static_cast<double>(2 * 4 * parameters_of(job.model));
        EXPECT_GE(static_cast<double>(sent), gradients) << "microbatch " << microbatch;
        EXPECT_LT(static_cast<double>(sent), 1.01 * gradients) << "microbatch " << microbatch;
    }
    EXPECT_TRUE(dry_run(job, 1, comm::TransportKind::inproc, 1).front().bytes_sent.empty());
}

TEST(DryRun, SmallerMicrobatchesNeedLessMemoryAndThePeakIsTheSumOfItsKinds) {
    Job job = small_job();
    const RankPlan whole = dry_run(job, 2, comm::TransportKind::inproc, 1).front();
    job.train.microbatch = 3;
    const RankPlan cut = dry_run(job, 2, comm::TransportKind::inproc, 1).front();
    EXPECT_LT(cut.peak_bytes, whole.peak_bytes);
    EXPECT_EQ(std::accumulate(whole.at_peak.begin(), whole.at_peak.end(), std::int64_t{0}), whole.peak_bytes);
    EXPECT_GE(whole.extent_bytes, whole.peak_bytes);
}

// Steps of 1 to 7 microbatches: what one more adds is the same from the third on, and the peak is.
TEST(DryRun, ManyMicrobatchesAreWhatOneAfterAnotherAddsUpTo) {
    Job job = small_job();
    job.train.microbatch = 2;
    job.train.z_loss = 1e-4;
    std::vector<RankPlan> plans;
    for (const std::int64_t count : {3, 4, 5, 6, 7}) {
        job.train.batch = 2 * 2 * count;
        plans.push_back(dry_run(job, 2, comm::TransportKind::inproc, 1).back());
    }
    for (std::size_t i = 1; i < plans.size(); ++i) {
        EXPECT_EQ(plans[i].peak_bytes, plans[0].peak_bytes);
        EXPECT_EQ(plans[i].extent_bytes, plans[0].extent_bytes);
        EXPECT_EQ(plans[i].bytes_sent, plans[0].bytes_sent);
        const auto more = static_cast<std::int64_t>(i);
        EXPECT_EQ(plans[i].launches - plans[0].launches, more * (plans[1].launches - plans[0].launches));
        EXPECT_NEAR(plans[i].flops - plans[0].flops, static_cast<double>(more) * (plans[1].flops - plans[0].flops), 1);
    }
    EXPECT_GT(plans[1].launches, plans[0].launches);
    EXPECT_EQ(memory_plan(job, 2, comm::TransportKind::inproc, 1).at_peak, plans[0].at_peak);
}

// The largest batch that a run file can ask for: as many samples would fill the machine.
TEST(DryRun, CostsNoMemoryOfTheBatch) {
    Job job = small_job();
    job.model.context = 64;
    job.train.batch = 1 << 24;
    for (const std::int64_t microbatch : {0, 1}) {
        job.train.microbatch = microbatch;
        const RankPlan plan = dry_run(job, 1, comm::TransportKind::inproc, 1).front();
        EXPECT_GT(plan.flops, 1e14) << microbatch;
    }
    job.model.context = 65;
    job.train.microbatch = 0;
    EXPECT_THAT(user_error([&] { dry_run(job, 1, comm::TransportKind::inproc, 1); }),
                HasSubstr("train.microbatch: found 16777216 sequences of 65 tokens"));
}

TEST(DryRunReport, RanksThatAreAlikeAreShownOnce) {
    auto plans = dry_run(small_job(), 4, comm::TransportKind::inproc, 1);
    // Ranks of one host send equal bytes here but for the cut of an odd bucket: make them alike, then one unlike.
    for (RankPlan& plan : plans) plan.bytes_sent = plans.front().bytes_sent;
    const std::string alike = dry_run_text(plans);
    EXPECT_THAT(alike, HasSubstr("ranks 0 to 3 ("));
    EXPECT_THAT(alike, HasSubstr("(" + std::to_string(plans.front().peak_bytes) + " bytes)"));
    EXPECT_THAT(alike, HasSubstr("all_reduce"));
    plans[3].peak_bytes += 1;
    EXPECT_THAT(dry_run_text(plans), testing::AllOf(HasSubstr("ranks 0 to 2 ("), HasSubstr("rank 3 (")));
    plans.resize(1);
    plans.front().bytes_sent.clear();
    EXPECT_THAT(dry_run_text(plans), testing::AllOf(HasSubstr("    nothing\n"), Not(HasSubstr("ranks"))));
}

TEST(DryRunReport, TheDocumentHasEveryRankAndKind) {
    const auto plans = dry_run(small_job(), 2, comm::TransportKind::inproc, 1);
    const Json document = Json::parse(dry_run_json(plans).dump(), "dry run");
    const auto& ranks = *document.find("ranks")->items();
    ASSERT_EQ(ranks.size(), 2U);
    for (std::size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(*ranks[r].find("rank")->integer(), static_cast<std::int64_t>(r));
        EXPECT_EQ(*ranks[r].find("peak_total_bytes")->integer(), plans[r].peak_bytes);
        std::int64_t sum = 0;
        for (const auto& [kind, bytes] : *ranks[r].find("peak_bytes")->members()) sum += *bytes.integer();
        EXPECT_EQ(sum, plans[r].peak_bytes);
        EXPECT_EQ(*ranks[r].find("bytes_sent")->find("all_reduce")->integer(), plans[r].bytes_sent.at("all_reduce"));
    }
}

}  // namespace
}  // namespace cleave

// Every schedule against one rank: loss, raw gradients, norm, parameters after two steps, in f64 by the design's
// measure, alone and together with the other strategies.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "layouts.h"
#include "parallel/schedule_kinds.h"
#include "train/job_check.h"
#include "train/verify.h"

namespace cleave::pipeline_parity {
namespace {

using test::LayoutFeatures;
using test::ParallelLayout;

constexpr int kSteps = 2;

struct Pipeline {
    std::string schedule;
    int stages = 2;
    int microbatches = 4;
    int chunks = 0;
    std::string layers = {};
};

std::string text_of(const Pipeline& p) {
    return fmt::format("{} of {} stages, {} microbatches, {} chunks, layers {}", p.schedule, p.stages, p.microbatches,
                       p.chunks, p.layers);
}

Job job_of(const Pipeline& pipeline, const ParallelLayout& layout, const LayoutFeatures& features) {
    Job job = test::layout_job(features);
    job.model.layers = std::max(8, 2 * pipeline.stages);  // two chunks a stage
    // So many layers with the larger weights of the other tests multiply the rounding of the first step by a thousand.
    job.model.initial_deviation = 0.1;
    job.train.batch = pipeline.microbatches * layout.dp * 2;
    job = test::with_layout(job, layout, pipeline.microbatches);
    job.mesh.pp = pipeline.stages;
    job.pipeline.schedule = pipeline.schedule;
    job.pipeline.chunks = pipeline.chunks;
    job.pipeline.layers = pipeline.layers;
    return job;
}

const ProofRun& one_rank(const Job& job, const LayoutFeatures& features) {
    static std::map<std::string, ProofRun> runs;
    Job one = on_one_rank(job);
    one.train.microbatch = 0;
    one.recompute = Recompute::none;
    const std::string key =
        fmt::format("{} batch {} layers {}", test::text_of(features), job.train.batch, job.model.layers);
    if (runs.count(key) == 0) runs[key] = proof_run(one, 1, 1, kSteps);
    return runs.at(key);
}

void expect_equal(const Pipeline& pipeline, const ParallelLayout& layout, LayoutFeatures features) {
    const Job job = job_of(pipeline, layout, features);
    const int ranks = pipeline.stages * layout.ranks();
    const std::string what = fmt::format("{}, {}, {}", text_of(pipeline), text_of(layout), test::text_of(features));
    const auto problems = check_without_text(job, ranks);
    ASSERT_TRUE(problems.empty()) << what << ": " << problems.front();
    features.recompute = Recompute::none;
    features.accumulation = 1;
    const ProofRun& one = one_rank(job, features);
    const VerifyReport report = compare(job, one, one, proof_run(job, ranks, 1, kSteps));
    EXPECT_TRUE(report.equal()) << what << ": " << report.first_difference << ", norm " << report.norm_difference
                                << " of " << report.loss_bound;
}

const std::vector<std::string>& schedules() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const ScheduleKind& kind : schedule_kinds()) all.emplace_back(kind.name);
        return all;
    }();
    return names;
}

// What the schedules themselves forbid; everything else must run.
bool forbidden(const std::string& schedule, int stages, int microbatches) {
    if (schedule == "dualpipe") return stages % 2 != 0 || microbatches % 2 != 0 || microbatches < 2 * stages;
    if (schedule == "dualpipev") return microbatches < 2 * stages;
    return false;
}

void expect_equal_or_refused(const Pipeline& pipeline, const ParallelLayout& layout, const LayoutFeatures& features) {
    if (!forbidden(pipeline.schedule, pipeline.stages, pipeline.microbatches))
        return expect_equal(pipeline, layout, features);
    const Job job = job_of(pipeline, layout, features);
    const auto problems = check_without_text(job, pipeline.stages * layout.ranks());
    ASSERT_EQ(problems.size(), 1U) << text_of(pipeline);
    EXPECT_NE(problems.front().find("train.microbatch: microbatches in a step"), std::string::npos) << problems.front();
}

std::vector<int> counts_of_microbatches(int stages) {
    std::set<int> counts{1, stages - 1, stages, 2 * stages, 3 * stages + 1};
    return {counts.begin(), counts.end()};
}

// Those of the other strategies that fit beside so many stages.
std::vector<ParallelLayout> layouts_beside(int stages) {
    std::vector<ParallelLayout> all;
    for (const ParallelLayout& layout : test::all_layouts())
        if (layout.ranks() * stages <= 8 && layout.dp != 3) all.push_back(layout);
    return all;
}

// One of each route, for the sanitizers too.
TEST(Pipelines, EqualOneRank) {
    const LayoutFeatures features{.variant = test::Variant::llama,
                                  .tied = true,
                                  .dropout = 0.25,
                                  .recompute = Recompute::selective,
                                  .documents = true};
    expect_equal({"1f1b", 2, 3}, {.dp = 2, .zero = 3}, features);
    expect_equal({"interleaved", 2, 4}, {.dp = 2, .zero = 2}, features);
    expect_equal({"zbv", 2, 4}, {.tp = 2, .sequence = true}, features);
    expect_equal({"dualpipe", 2, 4}, {.dp = 2, .zero = 1}, features);
}

TEST(Pipelines, LayersMayBeUnevenAndPartsMayHaveNone) {
    for (const char* layers : {"0,3,4,1", "5,1,1,1", "3,3,2,0", "1,1,1,5"})
        expect_equal({"1f1b", 4, 5, 0, layers}, {}, {.variant = test::Variant::gpt2, .tied = true});
    expect_equal({"interleaved", 2, 5, 3, "0,2,1,2,3,0"}, {.dp = 2}, {.variant = test::Variant::llama});
}

// Every schedule, number of stages and of microbatches (of 8 stages every other number); the features take turns.
TEST(SlowPipelineMatrix, EverySchedule) {
    const auto features = test::all_features();
    std::size_t next = 0;
    for (const std::string& schedule : schedules())
        for (const int stages : {2, 4, 8})
            for (const int microbatches : counts_of_microbatches(stages)) {
                next += 29;  // no divisor of their number
                if (stages == 8 && next % 2 == 0) continue;
                expect_equal_or_refused({schedule, stages, microbatches}, {}, features[next % features.size()]);
            }
}

// Of the n-th schedule every 7th layout, from another one on.
TEST(SlowPipelineMatrix, ASliceBesideOtherStrategies) {
    const auto features = test::all_features();
    std::size_t next = 0;
    for (std::size_t s = 0; s < schedules().size(); ++s)
        for (const int stages : {2, 4}) {
            const auto layouts = layouts_beside(stages);
            for (std::size_t l = s % 7; l < layouts.size(); l += 7) {
                expect_equal({schedules()[s], stages, 2 * stages}, layouts[l], features[next % features.size()]);
                next += 31;
            }
        }
}

// Minutes: `make parity`.
TEST(PipelineMatrix, DISABLED_Whole) {
    const auto features = test::all_features();
    std::size_t next = 0;
    for (const std::string& schedule : schedules())
        for (const int stages : {2, 4, 8})
            for (const int microbatches : counts_of_microbatches(stages)) {
                for (const ParallelLayout& layout : layouts_beside(stages))
                    for (int turn = 0; turn < 2; ++turn, next += 37)
                        expect_equal_or_refused({schedule, stages, microbatches}, layout,
                                                features[next % features.size()]);
                fmt::print("{} of {} stages, {} microbatches, beside {} layouts\n", schedule, stages, microbatches,
                           layouts_beside(stages).size());
            }
}

// f32 and bf16: at most 4 times as far from f64 as one rank is.
TEST(SlowPipelineMatrix, OtherDtypesAreAsNearAsOneRank) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const Pipeline& pipeline : {Pipeline{"1f1b", 4, 5}, {"zbv", 2, 4}}) {
            const ParallelLayout layout{.dp = 2, .zero = 1};
            const Job job = job_of(pipeline, layout, {.variant = test::Variant::llama});
            const VerifyReport report = verify(job, {pipeline.stages * 2, dtype, kSteps, {}});
            EXPECT_TRUE(report.equal()) << name_of(dtype) << ", " << text_of(pipeline) << ": "
                                        << report.first_difference;
        }
}

// Two stages own a tied table: their copies stay equal to the bit, and so does the whole run when it is repeated.
TEST(Pipelines, RepeatToTheBit) {
    for (const char* schedule : {"1f1b", "zbv", "dualpipe"}) {
        Job job = job_of({schedule, 2, 4}, {.dp = 2, .zero = 2}, {.variant = test::Variant::gpt2, .tied = true});
        job.train.dtype = DType::bf16;
        const ProofRun once = proof_run(job, 4, 1, kSteps);
        const ProofRun again = proof_run(job, 4, 1, kSteps);
        EXPECT_EQ(once.parameters, again.parameters) << schedule;
        EXPECT_EQ(once.gradients, again.gradients) << schedule;
        EXPECT_EQ(once.norms, again.norms) << schedule;
    }
}

}  // namespace
}  // namespace cleave::pipeline_parity

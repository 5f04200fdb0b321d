// Every schedule against one rank: loss, raw gradients, norm, parameters after two steps, in f64 by the design's
// measure, alone and together with the other strategies.
#include <gtest/gtest.h>

#include <map>

#include "layouts.h"
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
    job.model.layers = 8;
    job.train.batch = pipeline.microbatches * layout.dp * 2;
    job = test::with_layout(job, layout, pipeline.microbatches);
    job.mesh.pp = pipeline.stages;
    job.pipeline = {pipeline.schedule, pipeline.chunks, pipeline.layers};
    return job;
}

const ProofRun& one_rank(const Job& job, const LayoutFeatures& features) {
    static std::map<std::string, ProofRun> runs;
    Job one = on_one_rank(job);
    one.train.microbatch = 0;
    one.recompute = Recompute::none;
    const std::string key = fmt::format("{} batch {}", test::text_of(features), job.train.batch);
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
    EXPECT_TRUE(report.equal()) << what << ": " << report.first_difference;
}

TEST(Pipelines, EqualOneRank) {
    for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipe", "dualpipev"})
        for (const int stages : {2, 4}) {
            expect_equal({schedule, stages, 2 * stages}, {}, {.variant = test::Variant::gpt2, .tied = true});
            expect_equal({schedule, stages, 2 * stages}, {}, {.variant = test::Variant::llama, .tied = false, .recompute = Recompute::full});
            expect_equal({schedule, stages, 2 * stages}, {.dp = 2, .zero = 3}, {.variant = test::Variant::llama, .tied = true, .dropout = 0.25, .recompute = Recompute::selective});
            expect_equal({schedule, stages, 2 * stages}, {.dp = 1, .tp = 2, .sequence = true}, {.variant = test::Variant::qwen3, .tied = true, .dropout = 0.25, .recompute = Recompute::selective, .documents = true});
        }
}

}  // namespace
}  // namespace cleave::pipeline_parity

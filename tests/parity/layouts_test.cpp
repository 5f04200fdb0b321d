// Every layout against one rank: loss, raw gradients, norm, parameters after two steps, in f64 by the design's measure;
// and a part of them in f32 and bf16. The whole matrix is `make parity`; a slice of it, with every layout, is here.
#include "layouts.h"

#include <gtest/gtest.h>

#include <map>

#include "train/verify.h"

namespace cleave {
namespace {

using test::LayoutFeatures;
using test::ParallelLayout;

constexpr int kSteps = 2;

// Of one rank; microbatches and recomputation change nothing but rounding and bits.
const ProofRun& one_rank(LayoutFeatures features) {
    static std::map<std::string, ProofRun> runs;
    features.accumulation = 1;
    features.recompute = Recompute::none;
    const std::string key = text_of(features);
    if (runs.count(key) == 0) runs[key] = proof_run(on_one_rank(test::layout_job(features)), 1, 1, kSteps);
    return runs.at(key);
}

void expect_equal(const ParallelLayout& layout, const LayoutFeatures& features) {
    const Job job = test::with_layout(test::layout_job(features), layout, features.accumulation);
    const ProofRun& one = one_rank(features);
    const VerifyReport report = compare(job, one, one, proof_run(job, layout.ranks(), 1, kSteps));
    EXPECT_TRUE(report.equal()) << text_of(layout) << ", " << text_of(features) << ": " << report.first_difference;
}

// One of each strategy, for the sanitizers too.
TEST(Layouts, EqualOneRank) {
    const LayoutFeatures features{.variant = test::Variant::llama,
                                  .tied = true,
                                  .dropout = 0.25,
                                  .accumulation = 3,
                                  .recompute = Recompute::full};
    for (const ParallelLayout& layout :
         {ParallelLayout{.dp = 2, .zero = 2},
          {.tp = 4, .sequence = true},
          {.dp = 2, .tp = 2, .zero = 1},
          {.dp = 2, .tp = 2, .sequence = true, .inputs = SequenceInputs::kept, .zero = 3}})
        expect_equal(layout, features);
}

// Of the n-th layout every 29th feature, from another one on: all layouts, all features.
TEST(SlowLayoutMatrix, ASliceEqualsOneRank) {
    const auto layouts = test::all_layouts();
    const auto features = test::all_features();
    for (std::size_t l = 0; l < layouts.size(); ++l)
        for (std::size_t f = l % 29; f < features.size(); f += 29) expect_equal(layouts[l], features[f]);
}

// Minutes: `make parity` runs it, and the slice above stands for it in every other run.
TEST(LayoutMatrix, DISABLED_Whole) {
    const auto features = test::all_features();
    std::size_t done = 0;
    const auto layouts = test::all_layouts();
    for (const ParallelLayout& layout : layouts) {
        for (const LayoutFeatures& feature : features) expect_equal(layout, feature);
        fmt::print("{} of {} layouts, each with {} jobs: {}\n", ++done, layouts.size(), features.size(),
                   text_of(layout));
    }
}

// Of all that a step has: losses, norms, raw gradients, parameters after two steps.
TEST(LayoutChunks, ChangeNoBit) {
    for (DType dtype : {DType::f64, DType::f32, DType::bf16})
        for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama})
            for (ParallelLayout layout : {ParallelLayout{.tp = 2},
                                          {.tp = 4, .sequence = true},
                                          {.dp = 2, .tp = 2, .sequence = true, .inputs = SequenceInputs::kept},
                                          {.dp = 2, .tp = 2, .sequence = true, .zero = 3}}) {
                Job job = test::with_layout(test::layout_job({.variant = variant, .dropout = 0.25}), layout, 3);
                job.train.dtype = dtype;
                const ProofRun whole = proof_run(job, layout.ranks(), 1, kSteps);
                layout.chunks = job.tensor_parallel_chunks = 5;
                const ProofRun chunks = proof_run(job, layout.ranks(), 1, kSteps);
                const std::string what = std::string(name_of(dtype)) + ", " + text_of(layout);
                EXPECT_EQ(chunks.losses, whole.losses) << what;
                EXPECT_EQ(chunks.norms, whole.norms) << what;
                EXPECT_EQ(chunks.gradients, whole.gradients) << what;
                EXPECT_EQ(chunks.parameters, whole.parameters) << what;
            }
}

// f32 and bf16: at most 4 times as far from f64 as one rank is.
TEST(SlowLayoutDtypes, AreAsNearAsOneRank) {
    for (DType dtype : {DType::f32, DType::bf16})
        for (const ParallelLayout& layout : {ParallelLayout{.dp = 2},
                                             {.dp = 1, .tp = 2},
                                             {.dp = 1, .tp = 4, .sequence = true},
                                             {.dp = 4, .zero = 1},
                                             {.dp = 2, .zero = 2},
                                             {.dp = 2, .zero = 3},
                                             {.dp = 2, .tp = 2, .sequence = true, .zero = 3}}) {
            const Job job = test::with_layout(test::layout_job({.variant = test::Variant::llama}), layout, 1);
            const VerifyReport report = verify(job, {layout.ranks(), dtype, kSteps, {}});
            EXPECT_TRUE(report.equal()) << name_of(dtype) << ", " << text_of(layout) << ": " << report.first_difference
                                        << ", norm " << report.norm_difference << " of " << report.loss_bound;
        }
}

}  // namespace
}  // namespace cleave

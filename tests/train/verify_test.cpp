#include "train/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parity/layouts.h"
#include "train/job_check.h"
#include "train/shrink.h"

namespace cleave {
namespace {

TEST(Verify, ALayoutThatIsRightIsEqual) {
    Job job = test::layout_job({.variant = test::Variant::llama});
    job.mesh.tp = 2;
    job.sequence_parallel = true;
    const VerifyReport report = verify(job, {.ranks = 4, .dtype = DType::f64, .steps = 2, .progress = {}});
    EXPECT_TRUE(report.equal()) << report.first_difference;
    EXPECT_EQ(report.tensors.size(), report.one.names.size());
    EXPECT_EQ(report.one.losses.size(), 2U);
    for (const TensorVerdict& tensor : report.tensors) EXPECT_LT(tensor.gradient, 1e-12) << tensor.name;
}

// A run that differs from the reference is named by its first tensor in the order of use, whatever else differs.
TEST(Verify, TheFirstTensorThatDiffersIsNamed) {
    Job job = test::layout_job({});
    const ProofRun one = proof_run(job, 1, 1, 1);
    ProofRun other = one;
    other.gradients.at(one.names[5])[0] += 1e-6;
    other.gradients.at(one.names[3])[1] *= 2;
    const VerifyReport report = compare(job, one, one, other);
    EXPECT_EQ(report.first_difference, one.names[3]);
    other = one;
    other.losses[0] *= 1 + 1e-9;
    EXPECT_EQ(compare(job, one, one, other).first_difference, "the loss");
    other = one;
    other.gradients.at(one.names[0])[0] = NAN;
    EXPECT_EQ(compare(job, one, one, other).first_difference, one.names[0]);
    EXPECT_TRUE(compare(job, one, one, one).equal());
}

// A mean of the ranks' means shows, because they have unequal numbers of labels; rows do not depend on who asks for
// them.
TEST(Verify, RowsHaveUnequalNumbersOfLabels) {
    const Job job = test::layout_job({});
    const std::int64_t half = job.train.batch / 2;
    const auto labels = [&](std::int64_t first) {
        const Samples samples = proof_samples(job, 0, {first, half});
        return std::count_if(samples.labels.begin(), samples.labels.end(),
                             [](std::int32_t label) { return label >= 0; });
    };
    EXPECT_GT(static_cast<double>(labels(0)), 1.2 * static_cast<double>(labels(half)));
    const auto both = proof_samples(job, 0, {0, 2}).tokens;
    EXPECT_EQ(proof_samples(job, 0, {1, 1}).tokens,
              std::vector<std::int32_t>(both.begin() + job.model.context, both.end()));
}

Job llama_job(std::int64_t layers, std::int64_t heads, std::int64_t kv_heads, std::int64_t width,
              std::int64_t mlp_width) {
    Job job;
    ModelConfig& m = job.model;
    m.family = Family::llama;
    m.layers = layers;
    m.heads = heads;
    m.kv_heads = kv_heads;
    m.width = width;
    m.mlp_width = mlp_width;
    m.context = 8192;
    m.vocabulary = 128259;
    m.tied_embeddings = false;
    return job;
}

Job gpt3_job() {
    Job job;
    job.model.layers = 96;
    job.model.heads = 96;
    job.model.width = 12288;
    job.model.context = 2048;
    job.model.vocabulary = 50257;
    return job;
}

// A shrunk job is small, legal on the same layout, and its dims leave the same remainders.
TEST(Shrink, KeepsWhatTheLayoutDivides) {
    for (const Job& whole : {gpt3_job(), llama_job(32, 32, 8, 4096, 14336), llama_job(126, 128, 8, 16384, 53248)})
        for (const int tp : {1, 2, 4, 8, 16}) {
            Job job = whole;
            job.mesh.tp = tp;
            job.mesh.dp = 2;
            job.train.batch = 24;
            job.train.microbatch = 3;
            const Job small = shrunk(job, 2 * tp);
            EXPECT_TRUE(check_without_text(small, 2 * tp).empty()) << job.model.heads << " " << tp;
            EXPECT_EQ(small.model.vocabulary % tp, job.model.vocabulary % tp);
            EXPECT_EQ(small.model.hidden_mlp() % tp, job.model.hidden_mlp() % tp);
            EXPECT_EQ(small.model.context % tp, job.model.context % tp);
            EXPECT_LE(small.model.width, 512);
            EXPECT_LE(small.train.batch, 8);
            EXPECT_NE(shrinkage(job, small).find("model.layers"), std::string::npos);
        }
}

// As many layers as parts, and enough microbatches for any schedule.
TEST(Shrink, KeepsWhatAPipelineNeeds) {
    for (const char* schedule : {"1f1b", "interleaved", "dualpipe"})
        for (const int stages : {2, 4}) {
            Job job = llama_job(126, 128, 8, 16384, 53248);
            job.mesh.pp = stages;
            job.pipeline.schedule = schedule;
            job.train.batch = 64;
            job.train.microbatch = 1;
            const Job small = shrunk(job, stages);
            EXPECT_TRUE(check_without_text(small, stages).empty()) << schedule << " " << stages;
            EXPECT_LE(small.model.layers, 8);
            EXPECT_LE(small.train.batch, 8);
        }
}

TEST(Shrink, ShrunkModelsAreEqualOnTheirLayout) {
    Job job = llama_job(126, 128, 8, 16384, 53248);
    job.mesh.tp = 4;
    job.sequence_parallel = true;
    job.train.batch = 4;
    const Job small = shrunk(job, 4);
    const VerifyReport report = verify(small, {.ranks = 4, .dtype = DType::f64, .steps = 1, .progress = {}});
    EXPECT_TRUE(report.equal()) << report.first_difference;
}

}  // namespace
}  // namespace cleave

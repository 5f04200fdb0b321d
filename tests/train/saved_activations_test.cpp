// What a GPT-2 block keeps until backward, in bf16 with kept dropout masks, against the formulas of Korthikanti et al.
// 2022, "Reducing activation recomputation in large transformer models": term by term, the statistics of norms apart,
// which the formulas leave out. s tokens, b sequences, h width, a heads, t ranks.
#include "train/saved_activations.h"

#include <gtest/gtest.h>

#include <map>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "train/dry_run.h"
#include "train/job_layout.h"
#include "train/step.h"

namespace cleave {
namespace {

struct Sizes {
    double s, b, h, a;
    double sbh() const { return s * b * h; }
    double scores() const { return a * s * s * b; }
};

Job gpt2_job(std::int64_t width, std::int64_t heads, std::int64_t context, std::int64_t sequences) {
    Job job;
    job.model.layers = 2;
    job.model.width = width;
    job.model.heads = heads;
    job.model.context = context;
    job.model.vocabulary = 64;
    job.model.dropout = job.model.attention_dropout = 0.1;
    job.model.keep_dropout_masks = true;
    job.model.attention = AttentionKind::materialised;
    job.train.dtype = DType::bf16;
    job.train.batch = job.train.microbatch = sequences;
    return job;
}

Sizes sizes_of(const Job& job) {
    return {static_cast<double>(job.model.context), static_cast<double>(job.train.microbatch),
            static_cast<double>(job.model.width), static_cast<double>(job.model.heads)};
}

// Two norms, each a mean and a reciprocal deviation in f32 a token.
double norm_statistics(const Sizes& x) {
    return 16 * x.s * x.b;
}

double layer_bytes(const Job& job) {
    return static_cast<double>(total_bytes(saved_activations(job, job.mesh.tp, 1).block));
}

Job cut(Job job, int tp, bool sequence, SequenceInputs inputs = SequenceInputs::gathered) {
    job.mesh.tp = tp;
    job.sequence_parallel = sequence;
    job.sequence_parallel_inputs = inputs;
    return job;
}

TEST(SavedActivations, OfABlockAreThoseOfTheFormulas) {
    const Job job = gpt2_job(32, 4, 64, 3);
    const Sizes x = sizes_of(job);
    const double statistics = norm_statistics(x);
    EXPECT_EQ(layer_bytes(job), 34 * x.sbh() + 5 * x.scores() + statistics);
    for (const int t : {2, 4}) {
        EXPECT_EQ(layer_bytes(cut(job, t, false)), (10 + 24.0 / t) * x.sbh() + 5 * x.scores() / t + statistics);
        EXPECT_EQ(layer_bytes(cut(job, t, true)), (34 * x.sbh() + 5 * x.scores() + statistics) / t);
        EXPECT_EQ(layer_bytes(cut(job, t, true, SequenceInputs::kept)),
                  (4 + 30.0 / t) * x.sbh() + (5 * x.scores() + statistics) / t);
    }
}

// The fused attention keeps a log-sum-exp in f32 a query and head in the place of the probabilities: it is the
// selective recomputation of the paper.
TEST(SavedActivations, WithFusedAttentionHaveNoTermOfTheSquaredSequence) {
    Job job = gpt2_job(32, 4, 64, 3);
    job.model.attention = AttentionKind::fused;
    const Sizes x = sizes_of(job);
    const double rows = 4 * x.a * x.s * x.b + norm_statistics(x);
    EXPECT_EQ(layer_bytes(job), 34 * x.sbh() + rows);
    EXPECT_EQ(layer_bytes(cut(job, 4, true)), (34 * x.sbh() + rows) / 4);
}

TEST(SavedActivations, AreNamed) {
    const Job job = gpt2_job(32, 4, 64, 3);
    const Sizes x = sizes_of(job);
    std::map<std::string, double> of;
    for (const SavedTerm& term : saved_activations(job, 1, 1).block) of[term.name] = static_cast<double>(term.bytes);
    EXPECT_EQ(of["qkv"], 6 * x.sbh());
    EXPECT_EQ(of["gelu"], 8 * x.sbh());
    EXPECT_EQ(of["mlp up"], 8 * x.sbh());
    EXPECT_EQ(of["ln_1"], 2 * x.sbh());
    EXPECT_EQ(of["dropout mask"], 2 * x.sbh());
    EXPECT_EQ(of["probabilities"], 2 * x.scores());
    EXPECT_EQ(of["probabilities kept"], 2 * x.scores());
    EXPECT_EQ(of["probabilities mask"], x.scores());
    EXPECT_EQ(of["mean"] + of["rstd"], norm_statistics(x));
}

// Executed: the ledger after the forward of three blocks, less that of two.
TEST(SavedActivations, ExecutedAreTheSame) {
    for (const int t : {1, 2}) {
        Job job = cut(gpt2_job(32, 4, 64, 2), t, t > 1);
        std::vector<std::int64_t> live;
        for (const std::int64_t layers : {2, 3}) {
            job.model.layers = layers;
            const Mesh mesh = mesh_of(job, t);
            comm::LaunchOptions launch;
            launch.ranks = t;
            comm::run_ranks(launch, [&](comm::Communicator& world) {
                CpuEngine engine(mesh, world, 1);
                Transformer model(engine, job.model, layouts_of(job, mesh), job.train.dtype);
                model.initialize(1);
                const std::vector<std::int32_t> ids(static_cast<std::size_t>(job.train.batch * job.model.context), 5);
                const Tensor tokens = write_samples(engine, model, "tokens", ids);
                const Tensor labels = write_samples(engine, model, "labels", ids);
                Tape tape(engine);
                tape.set_randomness({1, 1, 0});
                const Tensor loss = model.loss(tape, tokens, labels, 1);
                if (world.rank() == 0) live.push_back(engine.ledger().live(MemoryKind::activations));
            });
        }
        EXPECT_EQ(static_cast<double>(live[1] - live[0]), layer_bytes(job)) << t;
    }
}

// GPT-3, one sequence, 8 ranks, GB a layer.
TEST(SavedActivations, OfGpt3AreThePublishedNumbers) {
    const Job job = gpt2_job(12288, 96, 2048, 1);
    const Sizes x = sizes_of(job);
    EXPECT_EQ(5 * x.a * x.s / x.h, 80);
    const auto gigabytes = [](const Job& of) { return layer_bytes(of) / 1e9; };
    EXPECT_NEAR(gigabytes(job), 2.869, 0.001);
    EXPECT_NEAR(gigabytes(job) * 96, 275.4, 0.1);
    EXPECT_NEAR(gigabytes(cut(job, 8, false)), 0.579, 0.001);
    EXPECT_NEAR(gigabytes(cut(job, 8, true)), 0.359, 0.001);
    Job fused = job;
    fused.model.attention = AttentionKind::fused;
    EXPECT_NEAR(gigabytes(cut(fused, 8, false)), 0.327, 0.002);
    EXPECT_NEAR(gigabytes(cut(fused, 8, true)), 0.107, 0.001);
    EXPECT_NEAR(gigabytes(cut(fused, 8, true, SequenceInputs::kept)), 0.195, 0.001);
    Job full = cut(fused, 8, false);
    full.recompute = Recompute::full;
    EXPECT_NEAR(gigabytes(full), 0.050, 0.001);
}

}  // namespace
}  // namespace cleave

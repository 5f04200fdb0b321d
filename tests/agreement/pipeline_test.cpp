// Executed and virtual steps of pipelines agree: every schedule, with what it is combined with. And who reads what.
#include <gtest/gtest.h>

#include "record.h"
#include "support/variants.h"

namespace cleave::agreement_of_pipelines {
namespace {

struct Setting {
    std::string schedule;
    int stages = 2;
    int microbatches = 4;
    int dp = 1;
    int tp = 1;
    bool sequence = false;
    int zero = 0;
    Recompute recompute = Recompute::none;
    test::Variant variant = test::Variant::llama;
    bool tied = true;
};

Job job_of(const Setting& s, ModelConfig& m) {
    m.layers = 8;
    m.heads = 4;
    m.width = 16;
    m.mlp_width = 21;
    m.context = 9;
    make_variant(m, s.variant);
    m.vocabulary = 31;
    m.tied_embeddings = s.tied;
    m.dropout = m.attention_dropout = 0.1;
    Job job;
    job.model = m;
    job.train.dtype = DType::bf16;
    job.train.batch = s.microbatches * s.dp * 2;
    job.train.microbatch = 2;
    job.train.bucket_bytes = 1 << 13;
    job.train.z_loss = 1e-3;
    job.mesh.pp = s.stages;
    job.mesh.tp = s.tp;
    job.pipeline.schedule = s.schedule;
    job.sequence_parallel = s.sequence;
    job.zero.stage = s.zero;
    job.recompute = s.recompute;
    return job;
}

std::string text_of(const Setting& s) {
    return fmt::format("{} of {} stages, dp {} tp {} zero {}", s.schedule, s.stages, s.dp, s.tp, s.zero);
}

TEST(AgreementOfPipelines, VirtualStepEqualsTheExecutedOne) {
    for (const Setting& s : {Setting{"1f1b"},
                             {.schedule = "gpipe", .stages = 4, .microbatches = 3, .tied = false},
                             {.schedule = "1f1b", .stages = 4, .microbatches = 5, .dp = 2, .zero = 1},
                             {.schedule = "interleaved", .dp = 2, .zero = 2, .variant = test::Variant::gpt2},
                             {.schedule = "zb-h1", .dp = 2, .tp = 2, .sequence = true, .zero = 3},
                             {.schedule = "zbv", .tp = 2, .sequence = true, .recompute = Recompute::selective},
                             {.schedule = "zb-h1", .dp = 2, .zero = 3, .recompute = Recompute::selective},
                             {.schedule = "zbv", .dp = 2, .zero = 2, .recompute = Recompute::full},
                             {.schedule = "dualpipe", .microbatches = 8, .dp = 2, .zero = 1},
                             {.schedule = "dualpipev", .microbatches = 8, .dp = 2, .zero = 3}}) {
        SCOPED_TRACE(text_of(s));
        ModelConfig m;
        const Job job = job_of(s, m);
        test::expect_agreement(m, job, s.dp, s.microbatches);
    }
}

// Token ids where the embedding is, labels where the head is, and nowhere else.
TEST(AgreementOfPipelines, OnlyTheFirstStageReadsTokensAndOnlyTheLastLabels) {
    const Setting s{.schedule = "1f1b", .stages = 4};
    ModelConfig m;
    const Job job = job_of(s, m);
    const Mesh mesh = mesh_of(job, 4);
    for (int rank = 0; rank < 4; ++rank) {
        VirtualEngine engine(mesh, rank, comm::TransportKind::inproc, 1);
        int tokens = 0;
        int labels = 0;
        for (const Event& event : test::record(engine, m, job, s.microbatches).events) {
            if (event.type != EventType::write) continue;
            tokens += event.detail == "tokens";
            labels += event.detail == "labels";
        }
        EXPECT_EQ(tokens, rank == 0 ? s.microbatches : 0);
        EXPECT_EQ(labels, rank == 3 ? s.microbatches : 0);
    }
}

}  // namespace
}  // namespace cleave::agreement_of_pipelines

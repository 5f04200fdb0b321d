// Executed and virtual steps agree on layouts that cut layers, with and without sequence parallelism, ZeRO and
// recomputation, where extents divide evenly and where they do not.
#include <gtest/gtest.h>

#include "record.h"
#include "support/variants.h"

namespace cleave {
namespace {

struct Setting {
    int dp = 1;
    int tp = 2;
    bool sequence = false;
    SequenceInputs inputs = SequenceInputs::gathered;
    int zero = 0;
    Recompute recompute = Recompute::none;
};

TEST(AgreementOfLayouts, VirtualStepEqualsTheExecutedOne) {
    for (const Setting& s : {Setting{},
                             {.tp = 4, .sequence = true},
                             {.tp = 4, .sequence = true, .inputs = SequenceInputs::kept},
                             {.dp = 2, .sequence = true, .zero = 1},
                             {.dp = 2, .sequence = true, .zero = 3},
                             {.dp = 2, .zero = 2, .recompute = Recompute::selective},
                             {.dp = 2, .sequence = true, .zero = 3, .recompute = Recompute::full}})
        for (const test::Variant variant : {test::Variant::gpt2, test::Variant::llama, test::Variant::qwen3})
            for (const std::int64_t context : {16, 17}) {
                ModelConfig m;
                m.layers = 2;
                m.heads = 8;
                m.width = 32;
                m.mlp_width = 42;
                m.context = context;
                make_variant(m, variant);
                m.vocabulary = 31;
                m.dropout = m.attention_dropout = 0.1;
                m.keep_dropout_masks = true;
                Job job;
                job.train.dtype = DType::bf16;
                job.train.batch = 8;
                job.train.bucket_bytes = 1 << 13;
                job.mesh.tp = s.tp;
                job.sequence_parallel = s.sequence;
                job.sequence_parallel_inputs = s.inputs;
                job.zero.stage = s.zero;
                job.recompute = s.recompute;
                SCOPED_TRACE(fmt::format("dp {} tp {} zero {} {}", s.dp, s.tp, s.zero, test::name_of(variant)));
                test::expect_agreement(m, job, s.dp, 2);
            }
}

}  // namespace
}  // namespace cleave

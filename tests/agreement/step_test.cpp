// "Executed and virtual": the virtual engine runs the same step without storage. Equal means: the order of events per
// rank and per stream, the ledger in program order, and, measured by other means than the virtual side declares, the
// bytes that the transport moved and the arena's own high-water mark.
#include <gtest/gtest.h>

#include "record.h"
#include "support/variants.h"

namespace cleave {
namespace {

using test::expect_agreement;

Job job_of(DType dtype) {
    Job job;
    job.train.dtype = dtype;
    job.train.batch = 24;
    job.train.bucket_bytes = 1 << 13;
    return job;
}

ModelConfig model_of(test::Variant variant) {
    ModelConfig m;
    m.layers = 2;
    m.heads = 4;
    m.width = 32;
    m.context = 16;
    m.vocabulary = 31;
    make_variant(m, variant);
    return m;
}

class Agreement : public testing::TestWithParam<std::tuple<test::Variant, DType, int, int, Recompute>> {};

TEST_P(Agreement, VirtualStepEqualsTheExecutedOne) {
    const auto [variant, dtype, dp, accumulation, recompute] = GetParam();
    Job job = job_of(dtype);
    job.recompute = recompute;
    expect_agreement(model_of(variant), job, dp, accumulation);
}

// What adds to a step: z-loss, documents kept apart, a window, counters.
TEST(AgreementOfFeatures, VirtualStepEqualsTheExecutedOne) {
    for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama})
        for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
            for (const auto& [dp, accumulation] : {std::pair{1, 3}, {2, 1}}) {
                Job job = job_of(DType::bf16);
                job.recompute = recompute;
                job.train.z_loss = 1e-4;
                job.train.count_underflow = true;
                job.data.separate_documents = true;
                ModelConfig config = model_of(variant);
                config.window = 5;
                expect_agreement(config, job, dp, accumulation);
            }
}

INSTANTIATE_TEST_SUITE_P(Steps, Agreement,
                         testing::Combine(testing::ValuesIn(test::kVariants), testing::Values(DType::f32, DType::bf16),
                                          testing::Values(1, 2, 4), testing::Values(1, 3),
                                          testing::Values(Recompute::none, Recompute::selective, Recompute::full)),
                         [](const auto& info) {
                             return test::name_of(std::get<0>(info.param)) +
                                    std::string(name_of(std::get<1>(info.param))) + "Dp" +
                                    std::to_string(std::get<2>(info.param)) + "Accumulation" +
                                    std::to_string(std::get<3>(info.param)) + "Recompute" +
                                    std::to_string(static_cast<int>(std::get<4>(info.param)));
                         });

}  // namespace
}  // namespace cleave

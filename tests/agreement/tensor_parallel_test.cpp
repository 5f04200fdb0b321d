// "Executed and virtual" of tensor and sequence parallelism, whole and in chunks; and what chunks do to a step: the
// same work and bytes, and no more memory.
#include <gtest/gtest.h>

#include "record.h"
#include "support/variants.h"

namespace cleave::tensor_parallel {
namespace {

constexpr std::int64_t kBatch = 12;

ModelConfig model_of(test::Variant variant) {
    ModelConfig m;
    m.layers = 2;
    m.heads = 8;
    m.width = 32;
    m.context = 16;
    m.vocabulary = 31;
    make_variant(m, variant);
    return m;
}

Job job_of(int tp, bool sequence, SequenceInputs inputs, int chunks) {
    Job job;
    job.train.batch = kBatch;
    job.train.dtype = DType::f32;
    job.mesh.tp = tp;
    job.sequence_parallel = sequence;
    job.sequence_parallel_inputs = inputs;
    job.tensor_parallel_chunks = chunks;
    return job;
}

TEST(AgreementOfTensorParallelism, VirtualStepEqualsTheExecutedOne) {
    for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama})
        for (const auto& [sequence, inputs] :
             {std::pair{false, SequenceInputs::kept}, {true, SequenceInputs::kept}, {true, SequenceInputs::gathered}})
            for (int chunks : {1, 4})
                for (Recompute recompute : {Recompute::none, Recompute::full}) {
                    Job job = job_of(4, sequence, inputs, chunks);
                    job.recompute = recompute;
                    test::expect_agreement(model_of(variant), job, 1, 2);
                    job.mesh.tp = 2;
                    test::expect_agreement(model_of(variant), job, 2, 1);
                }
}

test::Recorded planned(test::Variant variant, Job job) {
    job.model = model_of(variant);
    const Mesh mesh = mesh_of(job, job.mesh.tp);
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    return test::record(engine, job.model, job, 1);
}

struct Totals {
    std::int64_t sent = 0;
    double product_flops = 0;
};

Totals totals_of(const std::vector<Event>& events) {
    Totals totals;
    for (const Event& event : events) {
        if (event.type == EventType::issue) totals.sent += event.bytes;
        if (event.type == EventType::launch && event.name == "matmul") totals.product_flops += event.flops;
    }
    return totals;
}

// Chunks of one sequence need less memory than the whole, since nothing is packed; of larger ones all buffers may be
// there beside what the products make.
TEST(TensorParallelChunks, KeepWorkAndBytesAndNeedNoMemoryButPacking) {
    for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama})
        for (int tp : {2, 4})
            for (const auto& [sequence, inputs] : {std::pair{false, SequenceInputs::kept},
                                                   {true, SequenceInputs::kept},
                                                   {true, SequenceInputs::gathered}}) {
                const auto whole = planned(variant, job_of(tp, sequence, inputs, 1));
                const ModelConfig model = model_of(variant);
                const std::int64_t stream = kBatch * model.context * model.width * size_of(DType::f32);
                for (int chunks : {2, 4, 12}) {
                    const auto cut_up = planned(variant, job_of(tp, sequence, inputs, chunks));
                    const std::string what = fmt::format("tp {}, sequence {}, inputs {}, {} chunks", tp, sequence,
                                                         static_cast<int>(inputs), chunks);
                    EXPECT_EQ(totals_of(cut_up.events).sent, totals_of(whole.events).sent) << what;
                    EXPECT_EQ(totals_of(cut_up.events).product_flops, totals_of(whole.events).product_flops) << what;
                    EXPECT_GT(cut_up.events.size(), whole.events.size()) << what;
                    const bool packs = sequence && chunks < kBatch;
                    const std::int64_t packed =
                        cut_up.peak_by_kind[static_cast<std::size_t>(MemoryKind::communication)];
                    EXPECT_LE(cut_up.peak, whole.peak + (packs ? packed : 0)) << what;
                    EXPECT_LE(packed, (packs ? 2 : 1) * stream) << what;
                }
            }
}

}  // namespace
}  // namespace cleave::tensor_parallel

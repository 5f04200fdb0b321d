// Bytes a parameter of plain data parallelism with AdamW (docs/data_parallelism.md, "Memory"): 16 in f32, 18 in bf16,
// on any number of ranks. Padding and the norm's partial sums are under one part in a hundred of these models.
#include <gtest/gtest.h>

#include "engine/virtual_engine.h"
#include "train/step.h"

namespace cleave {
namespace {

double bytes_a_parameter(int ranks, DType dtype) {
    const Mesh mesh({{"dp", ranks}});
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    Job job;
    job.train.dtype = dtype;
    ModelConfig config;
    config.layers = 2;
    config.heads = 4;
    config.width = 256;
    config.context = 64;
    config.vocabulary = 1000;
    Transformer model(engine, config, data_parallel_layouts(mesh), dtype);
    const TrainStep step(engine, model, job);
    double parameters = 0;
    for (const Parameter* p : model.parameters()) parameters += static_cast<double>(p->shape.elements());
    return static_cast<double>(engine.ledger().live()) / parameters;
}

TEST(Memory, DataParallelismHolds16BytesAParameterInF32And18InBf16) {
    for (int ranks : {1, 2, 4}) {
        EXPECT_NEAR(bytes_a_parameter(ranks, DType::f32), 16, 0.16) << ranks << " ranks";
        EXPECT_NEAR(bytes_a_parameter(ranks, DType::bf16), 18, 0.18) << ranks << " ranks";
    }
}

}  // namespace
}  // namespace cleave

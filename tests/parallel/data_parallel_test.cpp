// The figures of docs/data_parallelism.md, from what the engine counts: the bytes of a step's reductions and the bytes
// that gradients hold.
#include <gtest/gtest.h>

#include "engine/functions.h"
#include "engine/virtual_engine.h"
#include "kernels/elementwise.h"
#include "parallel/data_parallel.h"
#include "parallel/gradient_buckets.h"

namespace cleave {
namespace {

constexpr std::int64_t kWidth = 64;  // matrices of whole blocks

// A row of square matrices.
std::vector<Parameter> weights_on(Engine& engine, int count) {
    std::vector<Parameter> weights(static_cast<std::size_t>(count));
    for (Parameter& w : weights) {
        w.name = "weight";
        w.shape = {kWidth, kWidth};
        w.layout = data_parallel_layouts(engine.mesh()).stream_parameter;
    }
    return weights;
}

std::vector<Parameter*> pointers_to(std::vector<Parameter>& weights) {
    std::vector<Parameter*> pointers;
    for (Parameter& w : weights) pointers.push_back(&w);
    return pointers;
}

// Backward of x W1 relu W2 relu ... for each of `microbatches`.
void run_step(Engine& engine, std::vector<Parameter>& weights, GradientBuckets& gradients, int microbatches) {
    const ModelLayouts layouts = data_parallel_layouts(engine.mesh());
    gradients.zero();
    for (int m = 0; m < microbatches; ++m) {
        Tensor x = engine.alloc("x", {24, kWidth}, layouts.stream, weights[0].value.dtype(), MemoryKind::activations);
        const Tensor labels = engine.alloc("labels", {24}, layouts.tokens, DType::i32, MemoryKind::activations);
        Tape tape(engine);
        for (Parameter& w : weights) x = relu(tape, linear(tape, x, w, nullptr, WeightForm::in_out, 1, "xw"), "relu");
        const Tensor loss = cross_entropy(tape, x, labels, 1.0 / 24, "loss");
        engine.mark("backward");
        tape.backward(loss, gradients.hooks(m + 1 == microbatches));
        engine.mark("backward ended");
    }
    gradients.finish();
}

std::vector<Event> issues_of(const std::vector<Event>& events) {
    std::vector<Event> issues;
    for (const Event& event : events)
        if (event.type == EventType::issue) issues.push_back(event);
    return issues;
}

TEST(DataParallel, AStepSendsTheFormulasBytesWhateverTheNumberOfMicrobatches) {
    for (int ranks : {1, 2, 3, 4, 8})
        for (int microbatches : {1, 3})
            for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
                const Mesh mesh({{"dp", ranks}});
                std::int64_t sent = 0;  // by all ranks: a rank's own part is even only up to a cache line
                for (int rank = 0; rank < ranks; ++rank) {
                    VirtualEngine engine(mesh, rank, comm::TransportKind::inproc, 1);
                    auto weights = weights_on(engine, 3);
                    const ParameterStore store(engine, pointers_to(weights), dtype, {.bucket_bytes = 1});
                    GradientBuckets gradients(store);
                    engine.trace().start();
                    run_step(engine, weights, gradients, microbatches);
                    for (const Event& issue : issues_of(engine.trace().events())) sent += issue.bytes;
                }
                const std::int64_t bytes = 3 * kWidth * kWidth * size_of(accumulator_of(dtype));
                EXPECT_EQ(sent, 2 * (ranks - 1) * bytes)
                    << ranks << " ranks, " << microbatches << " microbatches in " << name_of(dtype);
            }
}

TEST(DataParallel, EachBucketIsReducedOnceAndAllButTheLastBeforeBackwardEnds) {
    const Mesh mesh({{"dp", 4}});
    VirtualEngine engine(mesh, 1, comm::TransportKind::inproc, 1);
    auto weights = weights_on(engine, 4);
    const ParameterStore store(engine, pointers_to(weights), DType::f32, {.bucket_bytes = 1});
    GradientBuckets gradients(store);
    ASSERT_EQ(gradients.bucket_count(), 4);
    engine.trace().start();
    run_step(engine, weights, gradients, 2);
    const auto& events = engine.trace().events();
    EXPECT_EQ(issues_of(events).size(), 4u);
    std::vector<int> kernels_after(1, 0);  // of backward, after each issue
    for (const Event& event : events) {
        if (event.type == EventType::mark && event.name == "backward ended") kernels_after.push_back(-1);
        if (event.type == EventType::issue) kernels_after.push_back(0);
        if (event.type == EventType::launch) ++kernels_after.back();
    }
    ASSERT_EQ(kernels_after.size(), 1u + 1u + 4u + 1u);
    for (std::size_t issue = 2; issue < 5; ++issue) EXPECT_GT(kernels_after[issue], 0);
}

TEST(DataParallel, GradientsHoldFourBytesAParameterAndEightInF64) {
    for (auto [dtype, bytes] : {std::pair(DType::f64, 8), std::pair(DType::f32, 4), std::pair(DType::bf16, 4)}) {
        const Mesh mesh({{"dp", 2}});
        VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
        auto weights = weights_on(engine, 3);
        const ParameterStore store(engine, pointers_to(weights), dtype);
        const std::int64_t before = engine.ledger().live();
        const GradientBuckets gradients(store);
        EXPECT_EQ(engine.ledger().live() - before, 3 * kWidth * kWidth * bytes) << name_of(dtype);
    }
}

}  // namespace
}  // namespace cleave

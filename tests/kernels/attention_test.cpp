// What attention declares: flops for the pairs that are seen, scratch linear in the sequence and, forward, in the
// window; and what it refuses.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include "tensors.h"

namespace cleave::kernels {
namespace {

constexpr std::int64_t kSamples = 2, kHeads = 6, kKeyHeads = 3, kDepth = 8;

struct Operands {
    std::vector<View> inputs, outputs;
};

Operands forward_views(std::int64_t t, std::int64_t s) {
    const Shape q{kSamples, t, kHeads, kDepth}, k{kSamples, s, kKeyHeads, kDepth}, l{kSamples, kHeads, t};
    auto view = [](const Shape& shape) { return whole_view(nullptr, DType::f32, shape); };
    return {{view(q), view(k), view(k)}, {view(q), view(l)}};
}
Operands backward_views(std::int64_t t, std::int64_t s) {
    const Operands forward = forward_views(t, s);
    const auto& [in, out] = forward;
    return {{out[0], in[0], in[1], in[2], out[0], out[1]}, {in[0], in[1], in[2]}};
}

TEST(Attention, CostCountsThePairsThatAreSeen) {
    for (bool causal : {true, false})
        for (std::int64_t s : {1, 5, 12})
            for (std::int64_t t = 1; t <= s; ++t)
                for (std::int64_t window = 0; window <= (causal ? s + 1 : 0); ++window) {
                    std::int64_t pairs = 0;
                    for (std::int64_t i = 0; i < t * s; ++i) {
                        const std::int64_t behind = i / s + s - t - i % s;
                        pairs += !causal || (behind >= 0 && (window == 0 || behind < window)) ? 1 : 0;
                    }
                    const AttentionForm form{.scale = 1, .causal = causal, .window = window};
                    const auto products = static_cast<double>(2 * kDepth * kSamples * kHeads * pairs);
                    const Operands f = forward_views(t, s), b = backward_views(t, s);
                    EXPECT_EQ(Attention(form).cost(f.inputs, f.outputs).flops, 2 * products) << t << s << window;
                    EXPECT_EQ(AttentionBackward(form).cost(b.inputs, b.outputs).flops, 5 * products);
                }
}

TEST(Attention, ScratchIsLinearInTheSequenceAndForwardInTheWindow) {
    auto forward = [](std::int64_t t, std::int64_t window) {
        const Operands v = forward_views(t, t);
        return Attention({.scale = 1, .window = window}).workspace_bytes(v.inputs, v.outputs);
    };
    auto backward = [](std::int64_t t) {
        const Operands v = backward_views(t, t);
        return AttentionBackward({.scale = 1}).workspace_bytes(v.inputs, v.outputs);
    };
    EXPECT_EQ(forward(32768, 0) - forward(16384, 0), forward(16384, 0) - forward(0, 0));
    EXPECT_EQ(backward(32768) - backward(16384), backward(16384) - backward(0));
    EXPECT_EQ(forward(32768, 256), forward(16384, 256));
    EXPECT_LT(forward(16384, 256), forward(16384, 8192));
}

TEST(AttentionDeathTest, RefusesMasksThatLeaveAQueryNothing) {
    const Shape shape{1, 3, 1, 4};
    auto run = [&](const AttentionForm& form, std::vector<double> first) {
        std::vector<test::Tensor> in, out;
        for (const char* name : {"q", "k", "v"}) in.emplace_back(test::normal(shape, name), DType::f32);
        test::Array values({1, 3});
        values.values = std::move(first);
        if (form.documents) in.emplace_back(values, DType::i32);
        out.emplace_back(test::Array(shape), DType::f32);
        out.emplace_back(test::Array({1, 1, 3}), DType::f32);
        test::launch(Attention(form), in, out);
    };
    const AttentionForm documents{.scale = 1, .documents = true};
    EXPECT_DEATH(run(documents, {0, 2, 2}), "query 1: the first visible key is 2");
    EXPECT_DEATH(run(documents, {0, 1, 0}), "query 2: the first visible key is 0");
    EXPECT_DEATH(run(documents, {-1, 0, 0}), "query 0: the first visible key is -1");
    EXPECT_DEATH(run({.scale = 1, .causal = false, .window = 2}, {}), "a window or documents without causal");
}

}  // namespace
}  // namespace cleave::kernels

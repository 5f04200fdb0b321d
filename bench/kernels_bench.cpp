// Rates of the kernels on this machine, one line each: time of a launch, GFLOP/s, GB/s, and for memory-bound kernels
// the share of a copy's rate and of a pure read's. The least of many rounds. Team size by OMP_NUM_THREADS;
// `kernels_bench WORD` runs the lines that contain the word.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "attention_comparison.h"
#include "buffer.h"
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/rotary.h"
#include "kernels/team.h"
#include "memory_rate.h"

namespace {

using namespace cleave;
using namespace cleave::kernels;
using Form = MatMul::Form;

using bench::buffer;
using bench::Buffer;

struct Operand {
    Shape shape;
    DType dtype;
};

// Seconds of one call: the least of many short rounds, which other programs on the machine disturb least.
template <class F>
double seconds(F&& f) {
    using Clock = std::chrono::steady_clock;
    auto time = [&](int calls) {
        const auto begin = Clock::now();
        for (int i = 0; i < calls; ++i) f();
        return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    f();
    const int calls = std::max(1, static_cast<int>(2e-4 / std::max(1e-7, time(3) / 3)));
    double least = time(calls);
    const int rounds = std::max(5, static_cast<int>(0.1 / std::max(1e-5, least)));
    for (int i = 0; i < rounds; ++i) least = std::min(least, time(calls));
    return least / calls;
}

const char* filter = "";

void measure(const std::string& name, const Kernel& kernel, const std::vector<Operand>& inputs,
             const std::vector<Operand>& outputs, bool against_copy = false) {
    if (name.find(filter) == std::string::npos) return;
    std::vector<Buffer> storage;
    auto views_of = [&](const std::vector<Operand>& operands) {
        std::vector<View> views;
        for (const auto& [shape, dtype] : operands) {
            storage.push_back(buffer(shape.elements() * size_of(dtype)));
            views.push_back(whole_view(storage.back().get(), dtype, shape));
            if (is_float(dtype)) FillNormal(1, "x", 1.0).run({}, std::vector{views.back()}, nullptr);
        }
        return views;
    };
    const auto in = views_of(inputs);
    const auto out = views_of(outputs);
    const Buffer workspace = buffer(kernel.workspace_bytes(in, out));
    const double time = seconds([&] { kernel.run(in, out, workspace.get()); });
    const Cost cost = kernel.cost(in, out);
    fmt::print("{:44} {:10.2f} us {:8.1f} GFLOP/s {:8.2f} GB/s", name, time * 1e6, cost.flops / time * 1e-9,
               cost.bytes / time * 1e-9);
    if (against_copy) {
        std::int64_t operands = 0;
        for (const auto* views : {&in, &out})
            for (const View& view : *views) operands += view.bytes();
        const auto [of_copy, of_read] =
            bench::shares_of_memory(operands, cost.bytes, [&] { kernel.run(in, out, workspace.get()); });
        fmt::print("  {:4.0f} % of a copy {:4.0f} % of a read", 100 * of_copy, 100 * of_read);
    }
    fmt::print("\n");
    std::fflush(stdout);
}

void matmuls(DType t, std::int64_t rows) {
    const std::pair<std::int64_t, std::int64_t> shapes[] = {{128, 128}, {128, 384}, {128, 512}, {512, 128}, {128, 65}};
    const DType sum = t == DType::f64 ? DType::f64 : DType::f32;
    for (const auto& [k, n] : shapes) {
        const std::string text = fmt::format("{} {}x{}x{}", name_of(t), rows, k, n);
        measure("matmul nn " + text, MatMul(Form::nn, 1), {{{rows, k}, t}, {{k, n}, t}}, {{{rows, n}, t}});
        measure("matmul nn bias " + text, MatMul(Form::nn, 1, true), {{{rows, k}, t}, {{k, n}, t}, {{n}, t}},
                {{{rows, n}, t}});
        measure("matmul nt (dx) " + text, MatMul(Form::nt, 1), {{{rows, n}, t}, {{k, n}, t}}, {{{rows, k}, t}});
        measure("matmul tn (dw +=) " + text, MatMul(Form::tn, 1, false, true), {{{rows, k}, t}, {{rows, n}, t}},
                {{{k, n}, sum}});
    }
}

void attentions(DType t, std::int64_t b, std::int64_t length, std::int64_t h, std::int64_t g, std::int64_t d) {
    const Shape q{b, length, h, d}, k{b, length, g, d}, l{b, h, length};
    const DType sum = t == DType::f64 ? DType::f64 : DType::f32;
    const std::string text = fmt::format("{} b{} t{} h{}/{} d{}", name_of(t), b, length, h, g, d);
    measure("attention " + text, Attention({.scale = 0.1}), {{q, t}, {k, t}, {k, t}}, {{q, t}, {l, sum}});
    measure("attention_backward " + text, AttentionBackward({.scale = 0.1}),
            {{q, t}, {q, t}, {k, t}, {k, t}, {q, t}, {l, sum}}, {{q, t}, {k, t}, {k, t}});
}

void memory_bound(DType t, std::int64_t rows, std::int64_t width) {
    const Operand x{{rows, width}, t}, c{{width}, t};
    const DType a = t == DType::f64 ? DType::f64 : DType::f32;
    const Operand r{{rows}, a}, ca{{width}, a}, xa{{rows, width}, a};
    const std::string text = fmt::format("{} {}x{}", name_of(t), rows, width);
    auto line = [&](const std::string& name, const Kernel& kernel, std::vector<Operand> in, std::vector<Operand> out) {
        measure(name + " " + text, kernel, in, out, true);
    };
    line("add", Add{}, {x, x}, {x});
    line("accumulate", Accumulate{}, {x}, {xa});
    line("scale", Scale(2), {x}, {x});
    line("cast to f32", Cast{}, {x}, {{{rows, width}, DType::f32}});
    line("gelu", Gelu{}, {x}, {x});
    line("gelu_backward", GeluBackward{}, {x, x}, {x});
    line("swiglu", SwiGlu{}, {x, x}, {x});
    line("swiglu_backward", SwiGluBackward{}, {x, x, x}, {x, x});
    line("layer_norm", LayerNorm{}, {x, c, c}, {x, r, r});
    line("layer_norm_backward_input", LayerNormBackwardInput{}, {x, x, c, r, r}, {x});
    line("layer_norm_backward_weight", LayerNormBackwardWeight{}, {x, x, r, r}, {ca, ca});
    line("rms_norm", RmsNorm{}, {x, c}, {x, r});
    line("rms_norm_backward_input", RmsNormBackwardInput{}, {x, x, c, r}, {x});
    line("rms_norm_backward_weight", RmsNormBackwardWeight{}, {x, x, r}, {ca});
    line("column_sum", ColumnSum(1), {x}, {ca});
    const std::int64_t blocks = rows * width / kNormBlock;
    line("squared_norm", SquaredNorm{}, {{{blocks, kNormBlock}, a}}, {{{blocks}, DType::f64}});
    line("adamw", AdamW(1e-3, 0.9, 0.99, 1e-8, 0.1, 1, 10), {xa}, {xa, xa, xa});
    line("adamw with copy", AdamW(1e-3, 0.9, 0.99, 1e-8, 0.1, 1, 10, true), {xa},
         {xa, xa, xa, {{rows, width}, DType::bf16}});
    line("adamw with copy, counting", AdamW(1e-3, 0.9, 0.99, 1e-8, 0.1, 1, 10, true, true), {xa},
         {xa, xa, xa, {{rows, width}, DType::bf16}, {{kUpdateCounts}, DType::f64}});
    line("embedding", Embedding{}, {{{rows}, DType::i32}, {{65, width}, t}}, {x});
    line("embedding_backward", EmbeddingBackward{}, {{{rows}, DType::i32}, x}, {{{65, width}, a}});
    const Operand x4{{1, rows, width / 32, 32}, t};
    line("rotary", Rotary(1e4), {x4}, {x4});
    line("cross_entropy", CrossEntropy(1), {x, {{rows}, DType::i32}}, {{{}, a}, r});
    line("cross_entropy_backward", CrossEntropyBackward(1), {{{}, a}, x, r, {{rows}, DType::i32}}, {x});
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) filter = words[1];
    fmt::print("team of {}\n", team_size());
    measure("launch of add on 16 elements", Add{}, {{{16}, DType::f32}, {{16}, DType::f32}}, {{{16}, DType::f32}});
    for (DType t : {DType::f32, DType::bf16})
        for (std::int64_t rows : {384, 768}) matmuls(t, rows);
    matmuls(DType::f64, 384);
    for (DType t : {DType::f32, DType::bf16}) {
        attentions(t, 6, 64, 4, 4, 32);
        attentions(t, 6, 64, 2, 2, 64);
        attentions(t, 1, 1024, 4, 4, 64);
        attentions(t, 1, 1024, 8, 2, 128);
    }
    bench::compare_attentions(filter);
    for (DType t : {DType::f32, DType::bf16}) {
        memory_bound(t, 384, 128);
        memory_bound(t, 384, 512);
        memory_bound(t, 4096, 768);
        memory_bound(t, 16384, 2048);
    }
}

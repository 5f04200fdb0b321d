// Attention as differentiable functions (engine/functions.h): packed QKV as GPT-2 has it, and apart as Llama has it.
#include <cmath>

#include "engine/functions.h"
#include "kernels/attention.h"

namespace cleave {

namespace {

struct Result {
    Tensor output;
    Tensor lse;
};

double scale_of(const Tensor& q) {
    return 1.0 / std::sqrt(static_cast<double>(q.shape().back()));
}

Result forward(Engine& engine, const Tensor& q, const Tensor& k, const Tensor& v, std::string_view name) {
    const Shape lse{q.shape()[0], q.shape()[2], q.shape()[1]};  // [b h t]
    auto outputs = engine.create(kernels::Attention{true, scale_of(q)}, {q, k, v},
                                 {{name, q.shape(), q.dtype()}, {"log-sum-exp", lse, accumulator_of(q.dtype())}});
    return {outputs[0], outputs[1]};
}

}  // namespace

Tensor attention_packed(Tape& tape, const Tensor& qkv, std::string_view name) {
    Engine& engine = tape.engine();
    constexpr int kPacked = 2;  // the dim that holds q, k and v
    const Result result = forward(engine, qkv.select(kPacked, 0), qkv.select(kPacked, 1), qkv.select(kPacked, 2), name);
    if (!tape.recording()) return result.output;
    tape.record({result.output}, [&tape, &engine, qkv, result](std::span<const Tensor> gradients) {
        const Tensor q = qkv.select(kPacked, 0);
        Tensor d = engine.alloc(qkv.name(), qkv.shape(), qkv.layout().dual(), qkv.dtype(), MemoryKind::activations);
        engine.launch(kernels::AttentionBackward{true, scale_of(q)},
                      {gradients[0], q, qkv.select(kPacked, 1), qkv.select(kPacked, 2), result.output, result.lse},
                      {d.select(kPacked, 0), d.select(kPacked, 1), d.select(kPacked, 2)});
        tape.add_gradient(Tape::ref(qkv), std::move(d));
    });
    return result.output;
}

Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, std::string_view name) {
    Engine& engine = tape.engine();
    const Result result = forward(engine, q, k, v, name);
    if (!tape.recording()) return result.output;
    tape.record({result.output}, [&tape, &engine, q, k, v, result](std::span<const Tensor> gradients) {
        auto inputs = engine.create(
            kernels::AttentionBackward{true, scale_of(q)}, {gradients[0], q, k, v, result.output, result.lse},
            {{q.name(), q.shape(), q.dtype()}, {k.name(), k.shape(), k.dtype()}, {v.name(), v.shape(), v.dtype()}});
        tape.add_gradient(Tape::ref(q), std::move(inputs[0]));
        tape.add_gradient(Tape::ref(k), std::move(inputs[1]));
        tape.add_gradient(Tape::ref(v), std::move(inputs[2]));
    });
    return result.output;
}

}  // namespace cleave

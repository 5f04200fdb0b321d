// Attention as differentiable functions (engine/functions.h): packed QKV as GPT-2 has it, and apart as Llama has it.
#include <cmath>

#include "engine/functions.h"
#include "kernels/attention.h"

namespace cleave {

namespace {

kernels::AttentionForm form_of(const Tape& tape, const Tensor& q, const AttentionMask& mask,
                               const ProbabilityDropout& dropout) {
    kernels::AttentionForm form{.scale = 1.0 / std::sqrt(static_cast<double>(q.shape().back())),
                                .window = mask.window,
                                .documents = static_cast<bool>(mask.first_visible)};
    if (dropout.probability > 0 && tape.randomness()) {
        const Randomness& random = *tape.randomness();
        form.dropout = {dropout.probability, RandomStream(random.seed, dropout.place, random.step),
                        random.first_row - q.view().offset[0]};
    }
    return form;
}

// One attention: its operands, and what its backward needs.
struct Attended {
    Tensor q, k, v;
    AttentionMask mask;
    kernels::AttentionForm form;
    Tensor output, lse;

    void forward(Engine& engine, std::string_view name) {
        const kernels::Attention kernel(form);
        const Shape rows{q.shape()[0], q.shape()[2], q.shape()[1]};  // [b h t]
        const std::initializer_list<OutputSpec> specs{{name, q.shape(), q.dtype()},
                                                      {"log-sum-exp", rows, accumulator_of(q.dtype())}};
        const auto outputs = mask.first_visible ? engine.create(kernel, {q, k, v, mask.first_visible}, specs)
                                                : engine.create(kernel, {q, k, v}, specs);
        output = outputs[0];
        lse = outputs[1];
    }

    // Into tensors that exist.
    void backward(Engine& engine, const Tensor& doutput, Engine::Tensors gradients) const {
        const kernels::AttentionBackward kernel(form);
        if (mask.first_visible)
            engine.launch(kernel, {doutput, q, k, v, output, lse, mask.first_visible}, gradients);
        else
            engine.launch(kernel, {doutput, q, k, v, output, lse}, gradients);
    }
};

Tensor gradient_like(Engine& engine, const Tensor& x) {
    return engine.alloc(x.name(), x.shape(), x.layout().dual(), x.dtype(), MemoryKind::activations);
}

}  // namespace

Tensor attention_packed(Tape& tape, const Tensor& qkv, std::string_view name, const AttentionMask& mask,
                        const ProbabilityDropout& dropout) {
    Engine& engine = tape.engine();
    constexpr int kPacked = 2;  // the dim that holds q, k and v
    const Tensor q = qkv.select(kPacked, 0);
    Attended attended{q, qkv.select(kPacked, 1), qkv.select(kPacked, 2), mask, form_of(tape, q, mask, dropout), {}, {}};
    attended.forward(engine, name);
    if (!tape.recording()) return attended.output;
    tape.record({attended.output}, [&tape, &engine, qkv, attended](std::span<const Tensor> gradients) {
        Tensor d = gradient_like(engine, qkv);
        attended.backward(engine, gradients[0], {d.select(kPacked, 0), d.select(kPacked, 1), d.select(kPacked, 2)});
        tape.add_gradient(Tape::ref(qkv), std::move(d));
    });
    return attended.output;
}

Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, std::string_view name,
                 const AttentionMask& mask, const ProbabilityDropout& dropout) {
    Engine& engine = tape.engine();
    Attended attended{q, k, v, mask, form_of(tape, q, mask, dropout), {}, {}};
    attended.forward(engine, name);
    if (!tape.recording()) return attended.output;
    tape.record({attended.output}, [&tape, &engine, attended](std::span<const Tensor> gradients) {
        const Tensor dq = gradient_like(engine, attended.q);
        const Tensor dk = gradient_like(engine, attended.k);
        const Tensor dv = gradient_like(engine, attended.v);
        attended.backward(engine, gradients[0], {dq, dk, dv});
        tape.add_gradient(Tape::ref(attended.q), dq);
        tape.add_gradient(Tape::ref(attended.k), dk);
        tape.add_gradient(Tape::ref(attended.v), dv);
    });
    return attended.output;
}

}  // namespace cleave

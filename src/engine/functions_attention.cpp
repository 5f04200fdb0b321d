// Attention as differentiable functions (engine/functions.h): packed QKV as GPT-2 has it, and apart as Llama has it.
#include <cmath>

#include "engine/functions.h"
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/materialised_attention.h"

namespace cleave {

namespace {

struct Operands {
    Tensor q, k, v;
    AttentionMask mask;
};

kernels::AttentionForm form_of(const Operands& x) {
    return {.scale = 1.0 / std::sqrt(static_cast<double>(x.q.shape().back())),
            .window = x.mask.window,
            .documents = static_cast<bool>(x.mask.first_visible),
            .grouped = x.q.shape().rank() == 5};
}

// The mask of dropout, where there is any.
std::optional<kernels::AttentionDropout> dropout_of(const Tape& tape, const Operands& x,
                                                    const ProbabilityDropout& dropout) {
    if (dropout.probability == 0 || !tape.randomness()) return {};
    const Randomness& random = *tape.randomness();
    return kernels::AttentionDropout{dropout.probability, RandomStream(random.seed, dropout.place, random.step),
                                     random.first_row - x.q.view().offset[0]};
}

// [b h t] or [b g r t], as q is.
Shape heads_and_queries(const Tensor& q) {
    Shape shape{q.shape()[0]};
    for (int d = 2; d < q.shape().rank() - 1; ++d) shape.push_back(q.shape()[d]);
    shape.push_back(q.shape()[1]);
    return shape;
}

// One attention: its operands, its output and what its backward needs. backward() goes into tensors that exist.
struct Fused {
    Fused(Tape& tape, const Operands& operands, const ProbabilityDropout& dropout, std::string_view name)
        : x(operands), form(form_of(operands)) {
        form.dropout = dropout_of(tape, x, dropout);
        const kernels::Attention kernel(form);
        const std::initializer_list<OutputSpec> specs{
            {name, x.q.shape(), x.q.dtype()}, {"log-sum-exp", heads_and_queries(x.q), accumulator_of(x.q.dtype())}};
        Engine& engine = tape.engine();
        const auto outputs = x.mask.first_visible ? engine.create(kernel, {x.q, x.k, x.v, x.mask.first_visible}, specs)
                                                  : engine.create(kernel, {x.q, x.k, x.v}, specs);
        output = outputs[0];
        lse = outputs[1];
    }
    void backward(Engine& engine, const Tensor& doutput, const Tensor& dq, const Tensor& dk, const Tensor& dv) const {
        const kernels::AttentionBackward kernel(form);
        if (x.mask.first_visible)
            engine.launch(kernel, {doutput, x.q, x.k, x.v, output, lse, x.mask.first_visible}, {dq, dk, dv});
        else
            engine.launch(kernel, {doutput, x.q, x.k, x.v, output, lse}, {dq, dk, dv});
    }
    Operands x;
    kernels::AttentionForm form;
    Tensor output, lse;
};

struct Materialised {
    Materialised(Tape& tape, const Operands& operands, const ProbabilityDropout& dropout, std::string_view name)
        : x(operands), form(form_of(operands)), random(dropout_of(tape, operands, dropout)) {
        Engine& engine = tape.engine();
        Shape shape = heads_and_queries(x.q);
        shape.push_back(x.k.shape()[1]);
        const kernels::AttentionProbabilities kernel(form);
        const OutputSpec spec{"probabilities", shape, x.q.dtype()};
        probabilities = x.mask.first_visible ? engine.create(kernel, {x.q, x.k, x.mask.first_visible}, spec)
                                             : engine.create(kernel, {x.q, x.k}, spec);
        kept = probabilities;
        if (random && dropout.keep_mask)
            mask = engine.create(kernels::DropoutMask{random->probability, random->stream, random->row_shift},
                                 {probabilities}, {"probabilities mask", shape, DType::u8});
        if (random) kept = drop(engine, probabilities, "probabilities kept");
        output = engine.create(kernels::AttentionMix(form), {kept, x.v}, {name, x.q.shape(), x.q.dtype()});
    }
    void backward(Engine& engine, const Tensor& doutput, const Tensor& dq, const Tensor& dk, const Tensor& dv) const {
        Tensor dp = engine.alloc("probabilities", probabilities.shape(), probabilities.layout().dual(),
                                 probabilities.dtype(), MemoryKind::activations);
        engine.launch(kernels::AttentionMixBackward(form), {doutput, kept, x.v}, {dp, dv});
        if (random) dp = drop(engine, dp, "probabilities");
        engine.launch(kernels::AttentionProbabilitiesBackward(form), {dp, probabilities, x.q, x.k}, {dq, dk});
    }
    Operands x;
    kernels::AttentionForm form;
    std::optional<kernels::AttentionDropout> random;
    Tensor probabilities, mask, kept, output;

  private:
    Tensor drop(Engine& engine, const Tensor& p, std::string_view name) const {
        const OutputSpec spec{name, p.shape(), p.dtype()};
        if (mask) return engine.create(kernels::ApplyMask{1 / (1 - random->probability)}, {p, mask}, spec);
        return engine.create(kernels::Dropout{random->probability, random->stream, random->row_shift}, {p}, spec);
    }
};

Tensor gradient_like(Engine& engine, const Tensor& x) {
    return engine.alloc(x.name(), x.shape(), x.layout().dual(), x.dtype(), MemoryKind::activations);
}

template <class Attended>
Tensor record_packed(Tape& tape, const Tensor& qkv, int packed, Attended attended) {
    Tensor output = attended.output;
    if (!tape.recording()) return output;
    tape.record({output}, [&tape, qkv, packed, attended = std::move(attended)](std::span<const Tensor> gradients) {
        Engine& engine = tape.engine();
        Tensor d = gradient_like(engine, qkv);
        attended.backward(engine, gradients[0], d.select(packed, 0), d.select(packed, 1), d.select(packed, 2));
        tape.add_gradient(Tape::ref(qkv), std::move(d));
    });
    return output;
}

template <class Attended>
Tensor record_apart(Tape& tape, Attended attended) {
    Tensor output = attended.output;
    if (!tape.recording()) return output;
    tape.record({output}, [&tape, attended = std::move(attended)](std::span<const Tensor> gradients) {
        Engine& engine = tape.engine();
        const Operands& x = attended.x;
        const Tensor dq = gradient_like(engine, x.q);
        const Tensor dk = gradient_like(engine, x.k);
        const Tensor dv = gradient_like(engine, x.v);
        attended.backward(engine, gradients[0], dq, dk, dv);
        tape.add_gradient(Tape::ref(x.q), dq);
        tape.add_gradient(Tape::ref(x.k), dk);
        tape.add_gradient(Tape::ref(x.v), dv);
    });
    return output;
}

}  // namespace

Tensor attention_packed(Tape& tape, const Tensor& qkv, std::string_view name, const AttentionMask& mask,
                        const AttentionOptions& options) {
    constexpr int kPacked = 2;  // the dim that holds q, k and v
    const Operands x{qkv.select(kPacked, 0), qkv.select(kPacked, 1), qkv.select(kPacked, 2), mask};
    return options.kind == AttentionKind::fused
               ? record_packed(tape, qkv, kPacked, Fused(tape, x, options.dropout, name))
               : record_packed(tape, qkv, kPacked, Materialised(tape, x, options.dropout, name));
}

Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, std::string_view name,
                 const AttentionMask& mask, const AttentionOptions& options) {
    const Operands x{q, k, v, mask};
    return options.kind == AttentionKind::fused ? record_apart(tape, Fused(tape, x, options.dropout, name))
                                                : record_apart(tape, Materialised(tape, x, options.dropout, name));
}

}  // namespace cleave

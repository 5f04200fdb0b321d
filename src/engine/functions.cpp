#include "engine/functions.h"

#include <cmath>

#include "base/random.h"
#include "kernels/activation.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"

namespace cleave {

using kernels::MatMul;
using Gradients = std::span<const Tensor>;

Tensor linear(Tape& tape, const Tensor& x, Parameter& weight, Parameter* bias, WeightForm form, int in_dims,
              std::string_view name) {
    Engine& engine = tape.engine();
    const bool in_out = form == WeightForm::in_out;
    const int out_dims = weight.shape.rank() - in_dims;
    const int outer_dims = x.shape().rank() - in_dims;
    Shape shape;
    for (int d = 0; d < outer_dims; ++d) shape.push_back(x.shape()[d]);
    for (int d = 0; d < out_dims; ++d) shape.push_back(weight.shape[in_out ? in_dims + d : d]);

    MatMul forward{in_out ? MatMul::Form::nn : MatMul::Form::nt, in_dims};
    forward.bias = bias != nullptr;
    const OutputSpec output{name, shape, x.dtype()};
    Tensor y = bias != nullptr ? engine.create(forward, {x, weight.value, bias->value}, output)
                               : engine.create(forward, {x, weight.value}, output);
    if (!tape.recording()) return y;

    auto half = [&tape, &engine, &weight, bias, in_out, outer_dims, out_dims, input = Tape::ref(x),
                 input_name = x.name(), input_shape = x.shape(), saved = tape.save(x)](Gradients gradients) {
        const Tensor& dy = gradients[0];
        if (tape.wants_gradient(input)) {
            const MatMul backward{in_out ? MatMul::Form::nt : MatMul::Form::nn, out_dims};
            tape.add_gradient(input,
                              engine.create(backward, {dy, weight.value}, {input_name, input_shape, dy.dtype()}));
        }
        tape.use(weight, [&engine, &weight, in_out, outer_dims, saved, dy] {
            MatMul product{MatMul::Form::tn, outer_dims};
            product.accumulate = true;
            if (in_out)
                engine.launch(product, {saved.get(), dy}, {weight.gradient});
            else
                engine.launch(product, {dy, saved.get()}, {weight.gradient});
        });
        if (bias != nullptr)
            tape.use(*bias, [&engine, bias, out_dims, dy] {
                engine.launch(kernels::ColumnSum{out_dims, true}, {dy}, {bias->gradient});
            });
    };
    if (bias != nullptr)
        tape.record({y}, std::move(half), {&weight, bias});
    else
        tape.record({y}, std::move(half), {&weight});
    return y;
}

Tensor embedding(Tape& tape, const Tensor& tokens, Parameter& table, std::string_view name) {
    Engine& engine = tape.engine();
    Shape shape = tokens.shape();
    shape.push_back(table.shape.back());
    Tensor y = engine.create(kernels::Embedding{}, {tokens, table.value}, {name, shape, table.value.dtype()});
    if (!tape.recording()) return y;
    tape.record({y},
                [&tape, &engine, &table, tokens](Gradients gradients) {
                    tape.use(table, [&engine, &table, tokens, dy = gradients[0]] {
                        engine.launch(kernels::EmbeddingBackward{}, {tokens, dy}, {table.gradient});
                    });
                },
                {&table});
    return y;
}

Tensor add_positions(Tape& tape, const Tensor& x, Parameter& table, std::string_view name,
                     std::int64_t first_position) {
    Engine& engine = tape.engine();
    Tensor y = engine.create(kernels::AddPositions{first_position}, {x, table.value}, {name, x.shape(), x.dtype()});
    if (!tape.recording()) return y;
    tape.record({y},
                [&tape, &engine, &table, first_position, x = Tape::ref(x)](Gradients gradients) {
                    tape.add_gradient(x, gradients[0]);
                    tape.use(table, [&engine, &table, first_position, dy = gradients[0]] {
                        engine.launch(kernels::AddPositionsBackward{first_position}, {dy}, {table.gradient});
                    });
                },
                {&table});
    return y;
}

Tensor add_document_positions(Tape& tape, const Tensor& x, const Tensor& first_visible, Parameter& table,
                              std::string_view name) {
    const Tensor positions = tape.engine().create(kernels::DocumentPositions{}, {first_visible},
                                                  {"positions", first_visible.shape(), first_visible.dtype()});
    return add(tape, x, embedding(tape, positions, table, "position embedding"), name);
}

Tensor layer_norm(Tape& tape, const Tensor& x, Parameter& gain, Parameter& bias, double epsilon,
                  std::string_view name) {
    Engine& engine = tape.engine();
    Shape rows = x.shape();
    rows = Shape(std::span(rows.begin(), static_cast<std::size_t>(rows.rank() - 1)));
    const DType statistics = accumulator_of(x.dtype());
    auto outputs =
        engine.create(kernels::LayerNorm{epsilon}, {x, gain.value, bias.value},
                      {{name, x.shape(), x.dtype()}, {"mean", rows, statistics}, {"rstd", rows, statistics}});
    Tensor y = outputs[0];
    if (!tape.recording()) return y;
    tape.cheap(y, [&engine, &gain, &bias, x, epsilon, rows, statistics] {
        return engine
            .create(kernels::LayerNorm{epsilon}, {x, gain.value, bias.value},
                    {{x.name(), x.shape(), x.dtype()}, {"mean", rows, statistics}, {"rstd", rows, statistics}})
            .front();
    });
    tape.record(
        {y},
        [&tape, &engine, &gain, &bias, x, mean = outputs[1], rstd = outputs[2]](Gradients gradients) {
            const Tensor& dy = gradients[0];
            tape.add_gradient(Tape::ref(x),
                              engine.create(kernels::LayerNormBackwardInput{}, {dy, x, gain.value, mean, rstd},
                                            {x.name(), x.shape(), x.dtype()}));
            tape.use(gain, [&engine, &gain, &bias, x, mean, rstd, dy] {
                engine.launch(kernels::LayerNormBackwardWeight{}, {dy, x, mean, rstd}, {gain.gradient, bias.gradient});
            });
            tape.use(bias, [] {});  // the gain's half has added both
        },
        {&gain, &bias});
    return y;
}

Tensor rms_norm(Tape& tape, const Tensor& x, Parameter& gain, double epsilon, std::string_view name) {
    Engine& engine = tape.engine();
    const Shape rows(std::span(x.shape().begin(), static_cast<std::size_t>(x.shape().rank() - 1)));
    auto outputs = engine.create(kernels::RmsNorm{epsilon}, {x, gain.value},
                                 {{name, x.shape(), x.dtype()}, {"rstd", rows, accumulator_of(x.dtype())}});
    Tensor y = outputs[0];
    if (!tape.recording()) return y;
    tape.cheap(y, [&engine, &gain, x, epsilon, rows] {
        return engine
            .create(kernels::RmsNorm{epsilon}, {x, gain.value},
                    {{x.name(), x.shape(), x.dtype()}, {"rstd", rows, accumulator_of(x.dtype())}})
            .front();
    });
    tape.record({y},
                [&tape, &engine, &gain, x, rstd = outputs[1]](Gradients gradients) {
                    const Tensor& dy = gradients[0];
                    tape.add_gradient(Tape::ref(x),
                                      engine.create(kernels::RmsNormBackwardInput{}, {dy, x, gain.value, rstd},
                                                    {x.name(), x.shape(), x.dtype()}));
                    tape.use(gain, [&engine, &gain, x, rstd, dy] {
                        engine.launch(kernels::RmsNormBackwardWeight{}, {dy, x, rstd}, {gain.gradient});
                    });
                },
                {&gain});
    return y;
}

Tensor gelu(Tape& tape, const Tensor& x, std::string_view name) {
    Engine& engine = tape.engine();
    Tensor y = engine.create(kernels::Gelu{}, {x}, {name, x.shape(), x.dtype()});
    if (!tape.recording()) return y;
    tape.cheap(y, [&engine, x] { return engine.create(kernels::Gelu{}, {x}, {x.name(), x.shape(), x.dtype()}); });
    tape.record({y}, [&tape, &engine, x](Gradients gradients) {
        tape.add_gradient(Tape::ref(x),
                          engine.create(kernels::GeluBackward{}, {gradients[0], x}, {x.name(), x.shape(), x.dtype()}));
    });
    return y;
}

Tensor relu(Tape& tape, const Tensor& x, std::string_view name) {
    Engine& engine = tape.engine();
    Tensor y = engine.create(kernels::Relu{}, {x}, {name, x.shape(), x.dtype()});
    if (!tape.recording()) return y;
    tape.cheap(y, [&engine, x] { return engine.create(kernels::Relu{}, {x}, {x.name(), x.shape(), x.dtype()}); });
    tape.record({y}, [&tape, &engine, x](Gradients gradients) {
        tape.add_gradient(Tape::ref(x),
                          engine.create(kernels::ReluBackward{}, {gradients[0], x}, {x.name(), x.shape(), x.dtype()}));
    });
    return y;
}

Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up, std::string_view name) {
    Engine& engine = tape.engine();
    Tensor y = engine.create(kernels::SwiGlu{}, {gate, up}, {name, gate.shape(), gate.dtype()});
    if (!tape.recording()) return y;
    tape.cheap(y, [&engine, gate, up] {
        return engine.create(kernels::SwiGlu{}, {gate, up}, {gate.name(), gate.shape(), gate.dtype()});
    });
    tape.record({y}, [&tape, &engine, gate, up](Gradients gradients) {
        auto inputs = engine.create(kernels::SwiGluBackward{}, {gradients[0], gate, up},
                                    {{gate.name(), gate.shape(), gate.dtype()}, {up.name(), up.shape(), up.dtype()}});
        tape.add_gradient(Tape::ref(gate), std::move(inputs[0]));
        tape.add_gradient(Tape::ref(up), std::move(inputs[1]));
    });
    return y;
}

Tensor add(Tape& tape, const Tensor& a, const Tensor& b, std::string_view name) {
    Tensor y = tape.engine().create(kernels::Add{}, {a, b}, {name, a.shape(), a.dtype()});
    if (!tape.recording()) return y;
    tape.record({y}, [&tape, a = Tape::ref(a), b = Tape::ref(b)](Gradients gradients) {
        tape.add_gradient(a, gradients[0]);
        tape.add_gradient(b, gradients[0]);
    });
    return y;
}

Tensor dropout(Tape& tape, const Tensor& x, const DropoutOptions& options, std::string_view name) {
    if (options.probability == 0 || !tape.randomness()) return x;
    Engine& engine = tape.engine();
    const Randomness& random = *tape.randomness();
    const RandomStream stream(random.seed, name, random.step);
    const OutputSpec output{name, x.shape(), x.dtype()};
    const std::int64_t row_shift = random.first_row - x.view().offset[0];
    const kernels::Dropout kernel(options.probability, stream, row_shift);
    if (!options.keep_mask) {
        Tensor y = engine.create(kernel, {x}, output);
        tape.record({y}, [&tape, &engine, kernel, x = Tape::ref(x)](Gradients gradients) {
            const Tensor& dy = gradients[0];
            tape.add_gradient(x, engine.create(kernel, {dy}, {dy.name(), dy.shape(), dy.dtype()}));
        });
        return y;
    }
    const Tensor mask = engine.create(kernels::DropoutMask{options.probability, stream, row_shift}, {x},
                                      {"dropout mask", x.shape(), DType::u8});
    const kernels::ApplyMask apply{1 / (1 - options.probability)};
    Tensor y = engine.create(apply, {x, mask}, output);
    tape.record({y}, [&tape, &engine, apply, mask, x = Tape::ref(x)](Gradients gradients) {
        const Tensor& dy = gradients[0];
        tape.add_gradient(x, engine.create(apply, {dy, mask}, {dy.name(), dy.shape(), dy.dtype()}));
    });
    return y;
}

Tensor rotary(Tape& tape, const Tensor& x, const kernels::RotaryFrequencies& frequencies, std::string_view name,
              std::int64_t first_position) {
    Engine& engine = tape.engine();
    const kernels::Rotary forward(frequencies, false, first_position);
    Tensor y = engine.create(forward, {x}, {name, x.shape(), x.dtype()});
    if (!tape.recording()) return y;
    tape.record({y},
                [&tape, &engine, forward, x = Tape::ref(x), shape = x.shape(), dtype = x.dtype()](Gradients gradients) {
                    kernels::Rotary backward = forward;
                    backward.inverse = true;
                    tape.add_gradient(x, engine.create(backward, {gradients[0]}, {gradients[0].name(), shape, dtype}));
                });
    return y;
}

Tensor cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels, double scale, std::string_view name) {
    return cross_entropy(tape, logits, labels, scale, 0, name).objective;
}

Loss cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels, double scale, double z_loss,
                   std::string_view name) {
    Engine& engine = tape.engine();
    const Shape rows = labels.shape();
    const DType sums = accumulator_of(logits.dtype());
    auto outputs = engine.create(kernels::CrossEntropy{scale, kIgnoredLabel}, {logits, labels},
                                 {{name, {}, sums}, {"log-sum-exp", rows, sums}});
    const Tensor& lse = outputs[1];
    Loss loss{outputs[0], outputs[0], {}};
    if (z_loss != 0) {
        loss.z_loss = engine.create(kernels::ZLoss{z_loss * scale, kIgnoredLabel}, {lse, labels}, {"z-loss", {}, sums});
        loss.objective = engine.create(kernels::Add{}, {loss.cross_entropy, loss.z_loss}, {"objective", {}, sums});
    }
    if (!tape.recording()) return loss;
    tape.record({loss.objective}, [&tape, &engine, scale, z_loss, logits, labels, lse](Gradients gradients) {
        Tensor in_place = logits.relabelled(logits.layout().dual());
        engine.launch(kernels::CrossEntropyBackward{scale, kIgnoredLabel, z_loss}, {gradients[0], logits, lse, labels},
                      {in_place});
        tape.add_gradient(Tape::ref(logits), std::move(in_place));
    });
    return loss;
}

Tensor recomputed(Tape& tape, const Tensor& x, std::vector<Parameter*> parameters, Segment block) {
    if (!tape.recording() || tape.recompute() != Recompute::full) return block(tape, x);
    Tape forward_only(tape, false);
    Tensor y = block(forward_only, x);
    tape.announce_uses(parameters);
    tape.record({y}, [&tape, x, parameters = std::move(parameters), block = std::move(block)](Gradients gradients) {
        tape.retract_uses(parameters);  // the second run says so itself
        Tape again(tape, true);
        again.watch(x);
        const Tensor value = block(again, x);
        again.backward_from(value, gradients[0]);
        tape.add_gradient(Tape::ref(x), again.gradient_of(x));
    });
    return y;
}

Tensor transition(Tape& tape, const Tensor& x, const Layout& to) {
    if (x.layout() == to) return x;
    Engine& engine = tape.engine();
    Tensor y = engine.transition(x, to);
    if (!tape.recording()) return y;
    tape.record({y}, [&tape, &engine, x = Tape::ref(x)](Gradients gradients) {
        tape.add_gradient(x, engine.transition(gradients[0], x.layout.dual()));
    });
    return y;
}

}  // namespace cleave

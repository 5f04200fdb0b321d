#include "engine/functions.h"

#include <cmath>

#include "base/mutation.h"
#include "base/random.h"
#include "kernels/activation.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"

namespace cleave {

using Gradients = std::span<const Tensor>;

Tensor embedding(Tape& tape, const Tensor& tokens, Parameter& table, std::string_view name) {
    Engine& engine = tape.engine();
    Shape shape = tokens.shape();
    shape.push_back(table.shape.back());
    Tensor y = engine.create(kernels::Embedding{}, {tokens, table.value}, {name, shape, table.value.dtype()});
    if (!tape.recording()) return y;
    tape.record({y},
                [&tape, &engine, &table, tokens](Gradients gradients) {
                    tape.use(table, [&engine, &table, tokens, dy = gradients[0]] {
                        if (mutated(Mutation::tied_gradient_dropped)) return;
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
    Engine& engine = tape.engine();
    Layout rows = first_visible.layout();  // of x's
    for (const auto& [axis, placement] : x.layout())
        if (placement.is(Placement::Kind::S)) rows.set(axis, placement);
    const Tensor first = engine.transition(first_visible, rows);
    const Tensor positions =
        engine.create(kernels::DocumentPositions{}, {first}, {"positions", first.shape(), first.dtype()});
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
            tape.use(gain, bias, [&engine, &gain, &bias, x, mean, rstd, dy] {
                engine.launch(kernels::LayerNormBackwardWeight{}, {dy, x, mean, rstd}, {gain.gradient, bias.gradient});
            });
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
    // Another label of the same values is as cheap as they are.
    if (y.storage() == x.storage() && tape.is_cheap(x))
        tape.remake(y, [saved = tape.save(x), to] { return saved.get().relabelled(to); });
    const bool labels_alone = y.storage() == x.storage();
    tape.record({y}, [&tape, &engine, labels_alone, x = Tape::ref(x)](Gradients gradients) {
        if (mutated(Mutation::input_gradient_not_summed) && labels_alone)
            return tape.add_gradient(x, gradients[0].relabelled(x.layout.dual()));
        tape.add_gradient(x, engine.transition(gradients[0], x.layout.dual()));
    });
    return y;
}

Tensor transition_again(Tape& tape, const Tensor& x, const Layout& to) {
    Tensor y = transition(tape, x, to);
    if (!tape.recording() || y.storage() == x.storage()) return y;
    const Tape::Saved saved = tape.save(x);
    tape.communicate_again(y, saved,
                           [&engine = tape.engine(), saved, to] { return engine.transition(saved.get(), to); });
    return y;
}

}  // namespace cleave

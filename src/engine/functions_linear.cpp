// Products with a weight (engine/functions.h), whole or in chunks of rows beside the transitions into and out of them.
// What runs in chunks are the products of rows, forward and for the gradient of the input; the weight's gradient sums
// over all rows and is one product.
#include "base/mutation.h"
#include "engine/chunked_transition.h"
#include "engine/functions.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace cleave {

using kernels::MatMul;
using Gradients = std::span<const Tensor>;

// Shared by the transition and the product that runs first of those that read what it brings: in backward it runs last.
struct Arriving::State {
    std::unique_ptr<ChunkedTransition> values;    // until that product has run
    std::unique_ptr<ChunkedTransition> gradient;  // from that product's backward to the transition's
    Layout gradient_layout;
    int chunks;
    bool taken = false;
};

Tensor Arriving::whole() const {
    if (state_ && state_->values) {
        state_->values->finish_all();
        state_->values.reset();
    }
    return value_;
}

namespace {

// How a product of this weight takes its bias: added once, on the first rank of the axes that cut the contracted dims
// [first, first + count) of the weight, where the product is P.
Layout bias_in_product(const Parameter& bias, const Parameter& weight, int first, int count) {
    Layout layout = bias.layout;
    for (const auto& [axis, placement] : weight.layout)
        if (placement.is(Placement::Kind::S) && placement.dim >= first && placement.dim < first + count)
            layout.set(axis, P);
    return layout;
}

// A weight's three products.
struct WeightProducts {
    WeightProducts(Tape& tape_, Parameter& weight_, Parameter* bias_, WeightForm form, int in_dims_)
        : tape(tape_),
          engine(tape_.engine()),
          weight(weight_),
          bias(bias_),
          in_out(form == WeightForm::in_out),
          in_dims(in_dims_),
          out_dims(weight_.shape.rank() - in_dims_) {
        if (bias != nullptr) bias_layout = bias_in_product(*bias, weight, in_out ? 0 : out_dims, in_dims);
    }

    MatMul forward() const { return {in_out ? MatMul::Form::nn : MatMul::Form::nt, in_dims, bias != nullptr}; }
    MatMul backward() const { return {in_out ? MatMul::Form::nt : MatMul::Form::nn, out_dims}; }

    Tensor placed_bias() const {
        if (bias == nullptr) return {};
        return bias->layout == bias_layout ? bias->value : engine.transition(bias->value, bias_layout);
    }
    Shape output_shape(const Tensor& x) const {
        Shape shape;
        for (int d = 0; d < x.shape().rank() - in_dims; ++d) shape.push_back(x.shape()[d]);
        for (int d = 0; d < out_dims; ++d) shape.push_back(weight.shape[in_out ? in_dims + d : d]);
        return shape;
    }
    Tensor alloc_output(const Tensor& x, const Tensor& placed, std::string_view name) const {
        const OutputSpec spec{name, output_shape(x), x.dtype()};
        return placed ? engine.alloc_output(forward(), {x, weight.value, placed}, spec)
                      : engine.alloc_output(forward(), {x, weight.value}, spec);
    }
    void multiply(const Tensor& x, const Tensor& placed, const Tensor& y) const {
        if (placed)
            engine.launch(forward(), {x, weight.value, placed}, {y});
        else
            engine.launch(forward(), {x, weight.value}, {y});
    }

    void record(const Tensor& y, Tape::InputHalf half) const {
        if (bias != nullptr)
            tape.record({y}, std::move(half), {&weight, bias});
        else
            tape.record({y}, std::move(half), {&weight});
    }

    // The weight halves. `x` is what the product has read.
    void record_uses(const Tape::Saved& x, int outer_dims, const Tensor& dy) const {
        tape.use(weight, x, [&engine = engine, &weight = weight, in_out = in_out, outer_dims, x, dy] {
            MatMul product{MatMul::Form::tn, outer_dims};
            product.accumulate = true;
            if (in_out)
                engine.launch(product, {x.get(), dy}, {weight.gradient});
            else
                engine.launch(product, {dy, x.get()}, {weight.gradient});
        });
        if (bias == nullptr) return;
        // The backward of I -> P, added to what is there: R -> I, another label.
        tape.use(*bias, [&engine = engine, bias = bias, gradient = bias_layout.dual(), out_dims = out_dims, dy] {
            engine.launch(kernels::ColumnSum{out_dims, true}, {dy}, {bias->gradient.relabelled(gradient)});
        });
    }

    Tape& tape;
    Engine& engine;
    Parameter& weight;
    Parameter* bias;
    Layout bias_layout;
    bool in_out;
    int in_dims, out_dims;
};

// The input of a product without its storage.
struct Input {
    explicit Input(const Tensor& x) : ref(Tape::ref(x)), name(x.name()), shape(x.shape()) {}
    OutputSpec gradient(DType dtype) const { return {name, shape, dtype}; }
    Tape::Ref ref;
    std::string name;
    Shape shape;
};

// dy's product for the input's gradient in chunks, each added to what other products have given, and its sum over the
// ranks under way before the next chunk's product.
void start_gradient(const WeightProducts& products, const Input& input, const Tensor& dy, Arriving::State& to) {
    Engine& engine = products.engine;
    const MatMul product = products.backward();
    const Tensor& weight = products.weight.value;
    const Tensor others = products.tape.take_gradient(input.ref);
    CLEAVE_CHECK(!others || others.owns_storage_alone(), "the gradient of {} is somebody else's", input.name);
    const Tensor dx = others ? others : engine.alloc_output(product, {dy, weight}, input.gradient(dy.dtype()));
    to.gradient = std::make_unique<ChunkedTransition>(engine, dx, to.gradient_layout, to.chunks);
    for (int i = 0; i < to.gradient->count(); ++i) {
        const Tensor dy_rows = engine.local_rows(dy, to.gradient->rows(i));
        const Tensor dx_rows = engine.local_rows(dx, to.gradient->rows(i));
        if (others) {
            const OutputSpec spec{input.name, dx_rows.shape(), dx.dtype()};
            engine.launch(kernels::Accumulate{}, {engine.create(product, {dy_rows, weight}, spec)}, {dx_rows});
        } else {
            engine.launch(product, {dy_rows, weight}, {dx_rows});
        }
        to.gradient->start(i);
    }
    products.tape.add_gradient(input.ref, dx);
}

// y, which is x in another layout, comes again from what is saved of x.
void remake_in_chunks(Tape& tape, const Tensor& x, const Tensor& y, int chunks) {
    const Tape::Saved saved = tape.save(x);
    tape.communicate_again(y, saved, [&engine = tape.engine(), saved, to = y.layout(), chunks] {
        ChunkedTransition again(engine, saved.get(), to, chunks);
        again.start_all();
        return again.finish_all();
    });
}

}  // namespace

Arriving transition_in_chunks(Tape& tape, const Tensor& x, const Layout& to, int chunks, bool again) {
    if (chunks == 1 || x.local_shape()[0] < 2 || x.layout() == to)
        return again ? transition_again(tape, x, to) : transition(tape, x, to);
    Engine& engine = tape.engine();
    auto values = std::make_unique<ChunkedTransition>(engine, x, to, chunks);
    const Tensor y = values->start_all();
    auto state = std::make_shared<Arriving::State>();
    state->gradient_layout = x.layout().dual();
    state->chunks = chunks;
    if (values->count() > 1) state->values = std::move(values);
    if (!tape.recording()) return {y, state};
    const bool labels_alone = y.storage() == x.storage();
    if (labels_alone ? tape.is_cheap(x) : again) remake_in_chunks(tape, x, y, chunks);
    if (mutated(Mutation::input_gradient_not_summed) && labels_alone) {
        tape.record({y}, [&tape, x = Tape::ref(x)](Gradients gradients) {
            tape.add_gradient(x, gradients[0].relabelled(x.layout.dual()));
        });
        return y;
    }
    tape.record({y}, [&tape, &engine, state, x = Tape::ref(x)](Gradients gradients) {
        tape.add_gradient(
            x, state->gradient ? state->gradient->finish_all() : engine.transition(gradients[0], x.layout.dual()));
        state->gradient.reset();
    });
    return {y, state};
}

Tensor linear(Tape& tape, const Arriving& x, Parameter& weight, Parameter* bias, WeightForm form, int in_dims,
              std::string_view name) {
    const WeightProducts products(tape, weight, bias, form, in_dims);
    const Tensor& in = x.value_;
    Engine& engine = tape.engine();
    const Tensor placed = products.placed_bias();
    Tensor y = products.alloc_output(in, placed, name);
    const bool first = x.state_ && !std::exchange(x.state_->taken, true);
    if (first && x.state_->values) {
        const auto values = std::move(x.state_->values);
        for (int i = 0; i < values->count(); ++i) {
            values->finish(i);
            const Range rows = values->rows(i);
            products.multiply(engine.local_rows(in, rows), placed, engine.local_rows(y, rows));
        }
    } else {
        products.multiply(in, placed, y);
    }
    if (!tape.recording()) return y;
    products.record(y, [products, state = first ? x.state_ : nullptr, input = Input(in), saved = tape.save(in),
                        outer_dims = in.shape().rank() - in_dims](Gradients gradients) {
        const Tensor& dy = gradients[0];
        Tape& tape = products.tape;
        if (state)
            start_gradient(products, input, dy, *state);
        else if (tape.wants_gradient(input.ref))
            tape.add_gradient(input.ref, products.engine.create(products.backward(), {dy, products.weight.value},
                                                                input.gradient(dy.dtype())));
        products.record_uses(saved, outer_dims, dy);
    });
    return y;
}

Tensor linear_to(Tape& tape, const Tensor& x, Parameter& weight, Parameter* bias, WeightForm form, int in_dims,
                 std::string_view name, const Layout& to, int chunks) {
    if (chunks == 1) return transition(tape, linear(tape, x, weight, bias, form, in_dims, name), to);
    const WeightProducts products(tape, weight, bias, form, in_dims);
    Engine& engine = tape.engine();
    const Tensor placed = products.placed_bias();
    Tensor terms = products.alloc_output(x, placed, name);
    const Layout gradient_layout = terms.layout().dual();
    ChunkedTransition sum(engine, terms, to, chunks);
    for (int i = 0; i < sum.count(); ++i) {
        const Range rows = sum.rows(i);
        products.multiply(engine.local_rows(x, rows), placed, engine.local_rows(terms, rows));
        sum.start(i);
    }
    terms = {};
    Tensor y = sum.finish_all();
    if (!tape.recording()) return y;
    products.record(y, [products, chunks, gradient_layout, input = Input(x), saved = tape.save(x),
                        outer_dims = x.shape().rank() - in_dims](Gradients gradients) {
        Engine& engine = products.engine;
        ChunkedTransition gather(engine, gradients[0], gradient_layout, chunks);
        const Tensor dy = gather.start_all();
        const MatMul product = products.backward();
        const Tensor& weight = products.weight.value;
        const Tensor dx = engine.alloc_output(product, {dy, weight}, input.gradient(dy.dtype()));
        for (int i = 0; i < gather.count(); ++i) {
            gather.finish(i);
            const Range rows = gather.rows(i);
            engine.launch(product, {engine.local_rows(dy, rows), weight}, {engine.local_rows(dx, rows)});
        }
        products.tape.add_gradient(input.ref, dx);
        products.record_uses(saved, outer_dims, dy);
    });
    return y;
}

}  // namespace cleave

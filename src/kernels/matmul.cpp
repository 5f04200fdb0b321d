#include "kernels/matmul.h"

#include "kernels/column_sum.h"
#include "kernels/gemm.h"
#include "kernels/operands.h"

namespace cleave::kernels {

namespace {

// Signatures by number of named dims, made once: launches only look them up.
template <class Make>
std::vector<Signature> by_width(Make&& make) {
    std::vector<Signature> signatures;
    for (int width = 0; width <= kMaxRank; ++width) signatures.push_back(make(width));
    return signatures;
}

const Signature& at_width(const std::vector<Signature>& signatures, int width) {
    CLEAVE_CHECK(width >= 0 && width <= kMaxRank, "{} dims", width);
    return signatures[static_cast<std::size_t>(width)];
}

struct Problem {
    Gemm gemm;
    Shape output;
};

Shape joined(const Shape& a, int a_first, int a_last, const Shape& b, int b_first, int b_last) {
    Shape shape;
    for (int d = a_first; d < a_last; ++d) shape.push_back(a[d]);
    for (int d = b_first; d < b_last; ++d) shape.push_back(b[d]);
    return shape;
}

Problem problem_of(const MatMul& matmul, Views inputs, Views outputs) {
    expect_count(matmul, inputs, matmul.bias ? 3 : 2, outputs, 1);
    const Shape& x = inputs[0].shape;
    const Shape& w = inputs[1].shape;
    const int c = matmul.contracted;
    const int rx = x.rank();
    const int rw = w.rank();
    CLEAVE_CHECK(c <= rx && c <= rw, "{} dims of {} and {}", c, to_string(x), to_string(w));
    Problem p;
    p.gemm.bias = matmul.bias;
    p.gemm.accumulate = matmul.accumulate;
    p.gemm.input = inputs[0].dtype;
    p.gemm.output = outputs[0].dtype;
    bool fits = true;  // the contracted extents agree
    auto set = [&](int x_kept, int x_summed, int w_kept, int w_summed) {
        const int kept = rx - c;
        p.gemm.m = x.product(x_kept, x_kept + kept);
        p.gemm.k = x.product(x_summed, x_summed + c);
        p.gemm.n = w.product(w_kept, w_kept + rw - c);
        for (int d = 0; d < c; ++d) fits &= x[x_summed + d] == w[w_summed + d];
        p.output = joined(x, x_kept, x_kept + kept, w, w_kept, w_kept + rw - c);
    };
    switch (matmul.form) {
        case MatMul::Form::nn: set(0, rx - c, c, 0); break;
        case MatMul::Form::nt:
            set(0, rx - c, 0, rw - c);
            p.gemm.b_transposed = true;
            break;
        case MatMul::Form::tn:
            set(c, 0, c, 0);
            p.gemm.a_transposed = true;
            break;
    }
    CLEAVE_CHECK(fits, "the product of {} and {} over {} dims", to_string(x), to_string(w), c);
    return p;
}

}  // namespace

const Signature& MatMul::signature() const {
    static const auto nn = by_width([](int c) { return Signature("x[m.. k..] w[k.. n..] -> y[m.. n..]", {{'k', c}}); });
    static const auto nt = by_width([](int c) { return Signature("x[m.. k..] w[n.. k..] -> y[m.. n..]", {{'k', c}}); });
    static const auto tn = by_width([](int c) { return Signature("x[m.. k..] z[m.. n..] -> y[k.. n..]", {{'m', c}}); });
    static const auto nn_bias = by_width([](int c) {
        return Signature("x[m.. k..] w[k.. n..] + b[n..] -> y[m.. n..]", {{'k', c}});
    });
    static const auto nt_bias = by_width([](int c) {
        return Signature("x[m.. k..] w[n.. k..] + b[n..] -> y[m.. n..]", {{'k', c}});
    });
    switch (form) {
        case Form::nn: return at_width(bias ? nn_bias : nn, contracted);
        case Form::nt: return at_width(bias ? nt_bias : nt, contracted);
        case Form::tn: break;
    }
    CLEAVE_CHECK(!bias, "a product of form tn takes no bias");
    return at_width(tn, contracted);
}

Cost MatMul::cost(Views inputs, Views outputs) const {
    const Gemm gemm = problem_of(*this, inputs, outputs).gemm;
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = flops_of(gemm);
    if (accumulate) cost.bytes += static_cast<double>(outputs[0].bytes());
    return cost;
}

std::vector<Product> MatMul::products(Views inputs, Views outputs) const {
    return {{problem_of(*this, inputs, outputs).gemm}};
}

std::int64_t MatMul::workspace_bytes(Views inputs, Views outputs) const {
    const Gemm gemm = problem_of(*this, inputs, outputs).gemm;
    if (is_row_gemm(gemm)) return 0;
    return gemm.input == DType::f64 ? own_workspace_bytes(gemm) : onednn_workspace_bytes(gemm);
}

void MatMul::run(Views inputs, Views outputs, void* workspace) const {
    const auto [gemm, shape] = problem_of(*this, inputs, outputs);
    for (const View& view : inputs) expect(view, view.shape, gemm.input);
    expect_shape(outputs[0], shape);
    expect_dense(outputs[0]);
    CLEAVE_CHECK(gemm.output == gemm.input || gemm.output == accumulator_of(gemm.input), "a product of {} in {}",
                 name_of(gemm.input), name_of(gemm.output));
    if (bias) CLEAVE_CHECK(inputs[2].elements() == gemm.n, "a bias {}", to_string(inputs[2].shape));
    const GemmOperands operands{inputs[0].data, inputs[1].data, bias ? inputs[2].data : nullptr, outputs[0].data};
    if (is_row_gemm(gemm)) return row_gemm(gemm, operands);
    gemm.input == DType::f64 ? own_gemm(gemm, operands, workspace) : onednn_gemm(gemm, operands, workspace);
}

const Signature& ColumnSum::signature() const {
    static const auto signatures = by_width([](int kept) { return Signature("y[m.. n..] -> b[n..]", {{'n', kept}}); });
    return at_width(signatures, kept);
}

Cost ColumnSum::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = static_cast<double>(inputs[0].elements());
    return cost;
}

void ColumnSum::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    const View& y = inputs[0];
    const int split = y.shape.rank() - kept;
    CLEAVE_CHECK(split >= 0, "{} dims of {}", kept, to_string(y.shape));
    expect_dense(y);
    expect(outputs[0], joined(y.shape, split, y.shape.rank(), {}, 0, 0), accumulator_of(y.dtype));
    const std::int64_t rows = y.shape.product(0, split);
    const std::int64_t columns = outputs[0].elements();
    dispatch_float(y.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* in = y.as<T>();
        A* out = outputs[0].as<A>();
        if (!accumulate) std::fill_n(out, columns, A{});
        add_columns<A>(rows, columns, std::array{out}, [=](std::int64_t r, std::int64_t c, auto count) {
            return std::array{simd::load(in + r * columns + c, count)};
        });
    });
}

}  // namespace cleave::kernels

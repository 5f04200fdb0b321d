#include "kernels/materialised_attention.h"

#include "kernels/attention_mask.h"
#include "kernels/attention_tiles.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

// q-like and k-like operands with all heads in one dim, whatever the form.
View heads_of(const View& view) {
    return view.shape.rank() == 5 ? merged(view, 2) : view;
}

struct Extents {
    Extents(const AttentionForm& form, const View& q, const View& k) : shape(form, heads_of(q), k) {
        CLEAVE_CHECK(shape.key_heads > 0 && shape.heads % shape.key_heads == 0 && k.shape[3] == shape.depth,
                     "attention of {} to {}", to_string(q.shape), to_string(k.shape));
    }
    AttentionShape shape;

    std::int64_t groups() const { return shape.batch * shape.key_heads; }
    double flops() const { return 2 * static_cast<double>(shape.depth) * shape.pairs(); }
    void expect_probabilities(const View& p, DType dtype) const {
        expect_dense(p);
        CLEAVE_CHECK(p.dtype == dtype && p.shape.back() == shape.keys &&
                         p.elements() == shape.batch * shape.heads * shape.queries * shape.keys,
                     "probabilities {} of {}", to_string(p.shape), name_of(p.dtype));
    }
    // p[b h t ..], s elements.
    template <class T>
    T* row(const View& p, std::int64_t b, std::int64_t h, std::int64_t t) const {
        return p.as<T>() + ((b * shape.heads + h) * shape.queries + t) * shape.keys;
    }
};

// A thread's scratch in the accumulator's dtype: a row over keys, and sums [s, d] of one head of keys.
template <class A>
struct RowScratch {
    RowScratch(const AttentionShape& shape, void* begin) {
        Scratch scratch(begin);
        row = scratch.take<A>(padded<A>(shape.keys));
        sums = scratch.take<A>(shape.keys * shape.depth);
        bytes = scratch.used();
    }
    A* row;
    A* sums;
    std::int64_t bytes;
};

std::int64_t scratch_bytes(const Extents& e, DType dtype) {
    return dispatch_float(dtype, [&]<class T>(T) {
        return chunk_count(e.groups(), 1) * RowScratch<accumulator_t<T>>(e.shape, nullptr).bytes;
    });
}

// Calls f(T{}, scratch, b, g) for every head of keys of every sample.
template <class F>
void each_group(const Extents& e, DType dtype, void* workspace, F&& f) {
    dispatch_float(dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const std::int64_t bytes = RowScratch<A>(e.shape, nullptr).bytes;
        parallel_tasks(e.groups(), [&](std::int64_t task, std::int64_t worker) {
            const RowScratch<A> scratch(e.shape, static_cast<std::byte*>(workspace) + worker * bytes);
            f(T{}, scratch, task / e.shape.key_heads, task % e.shape.key_heads);
        });
    });
}

// sum[d] += factor x[d]
template <class T, class A>
void add_scaled(A* sum, A factor, const T* x, std::int64_t depth) {
    for_vectors<A>(0, depth,
                   [&](std::int64_t d, auto n) { store(sum + d, load(sum + d, n) + factor * load(x + d, n), n); });
}

template <class T>
accumulator_t<T> dot(const T* x, const T* y, std::int64_t depth) {
    return sum_over<accumulator_t<T>>(depth, [&](std::int64_t d, auto n) { return load(x + d, n) * load(y + d, n); });
}

template <class T, class A>
void write_rows(const HeadRows<T>& to, const A* sums, A factor, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r)
        for_vectors<A>(0, to.depth, [&](std::int64_t d, auto n) {
            store(to.row(r) + d, factor * load(sums + r * to.depth + d, n), n);
        });
}

template <class F>
void each_query(const AttentionShape& shape, std::int64_t g, F&& f) {
    for (std::int64_t h = g * shape.group(); h < (g + 1) * shape.group(); ++h)
        for (std::int64_t t = 0; t < shape.queries; ++t) f(h, t);
}

}  // namespace

const Signature& AttentionProbabilities::signature() const {
    static const Signature forms[] = {Signature("~q[b t! h d!] ~k[b s! h d!] -> p[b h t! s!]"),
                                      Signature("~q[b t! h d!] ~k[b s! h d!] #first[b t!] -> p[b h t! s!]"),
                                      Signature("~q[b t! g r d!] ~k[b s! g d!] -> p[b g r t! s!]"),
                                      Signature("~q[b t! g r d!] ~k[b s! g d!] #first[b t!] -> p[b g r t! s!]")};
    return forms[(form.grouped ? 2 : 0) + (form.documents ? 1 : 0)];
}

Cost AttentionProbabilities::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = Extents(form, inputs[0], inputs[1]).flops();
    return cost;
}

std::int64_t AttentionProbabilities::workspace_bytes(Views inputs, Views) const {
    return scratch_bytes(Extents(form, inputs[0], inputs[1]), inputs[0].dtype);
}

void AttentionProbabilities::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, form.documents ? 3 : 2, outputs, 1);
    const View q = heads_of(inputs[0]);
    const Extents e(form, q, inputs[1]);
    e.expect_probabilities(outputs[0], q.dtype);
    if (form.documents) expect_first_visible(e.shape, inputs[2]);
    each_group(e, q.dtype, workspace, [&]<class T>(T, const auto& scratch, std::int64_t b, std::int64_t g) {
        using A = accumulator_t<T>;
        const HeadRows<T> keys(inputs[1], b, g);
        const KeyMask mask(e.shape, form.documents ? &inputs[2] : nullptr, b);
        each_query(e.shape, g, [&](std::int64_t h, std::int64_t t) {
            const HeadRows<T> queries(q, b, h);
            T* p = e.row<T>(outputs[0], b, h, t);
            A top = -std::numeric_limits<A>::infinity();
            for (std::int64_t s = mask.begin(t); s < mask.end(t); ++s) {
                scratch.row[s] = static_cast<A>(form.scale) * dot(queries.row(t), keys.row(s), keys.depth);
                top = std::max(top, scratch.row[s]);
            }
            A sum = 0;
            for (std::int64_t s = mask.begin(t); s < mask.end(t); ++s)
                sum += scratch.row[s] = std::exp(scratch.row[s] - top);
            std::fill_n(p, e.shape.keys, T{});
            for (std::int64_t s = mask.begin(t); s < mask.end(t); ++s) p[s] = static_cast<T>(scratch.row[s] / sum);
        });
    });
}

const Signature& AttentionProbabilitiesBackward::signature() const {
    static const Signature forms[] = {
        Signature("dp[b h t! s!] ~p[b h t! s!] ~q[b t! h d!] ~k[b s! h d!] -> dq[b t! h d!] dk[b s! h d!]"),
        Signature("dp[b g r t! s!] ~p[b g r t! s!] ~q[b t! g r d!] ~k[b s! g d!] -> dq[b t! g r d!] dk[b s! g d!]")};
    return forms[form.grouped ? 1 : 0];
}

Cost AttentionProbabilitiesBackward::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 2 * Extents(form, inputs[2], inputs[3]).flops();
    return cost;
}

std::int64_t AttentionProbabilitiesBackward::workspace_bytes(Views inputs, Views) const {
    return scratch_bytes(Extents(form, inputs[2], inputs[3]), inputs[2].dtype);
}

void AttentionProbabilitiesBackward::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, 4, outputs, 2);
    const View q = heads_of(inputs[2]);
    const View dq = heads_of(outputs[0]);
    const Extents e(form, q, inputs[3]);
    for (const View& p : inputs.first(2)) e.expect_probabilities(p, q.dtype);
    expect_heads(dq, q, q.dtype);
    expect_heads(outputs[1], inputs[3], q.dtype);
    each_group(e, q.dtype, workspace, [&]<class T>(T, const auto& scratch, std::int64_t b, std::int64_t g) {
        using A = accumulator_t<T>;
        const AttentionShape& shape = e.shape;
        const HeadRows<T> keys(inputs[3], b, g);
        const auto scale = static_cast<A>(form.scale);
        std::fill_n(scratch.sums, shape.keys * shape.depth, A{});
        each_query(shape, g, [&](std::int64_t h, std::int64_t t) {
            const HeadRows<T> queries(q, b, h), to(dq, b, h);
            const T* p = e.row<T>(inputs[1], b, h, t);
            const T* dp = e.row<T>(inputs[0], b, h, t);
            const A mean = dot(p, dp, shape.keys);
            A* row = scratch.row;  // ds
            for (std::int64_t s = 0; s < shape.keys; ++s)
                row[s] = static_cast<A>(p[s]) * (static_cast<A>(dp[s]) - mean);
            for_vectors<A>(0, shape.depth, [&](std::int64_t d, auto n) {
                Vec<A> sum{};
                for (std::int64_t s = shape.begin(t); s < shape.end(t); ++s) sum += row[s] * load(keys.row(s) + d, n);
                store(to.row(t) + d, scale * sum, n);
            });
            for (std::int64_t s = shape.begin(t); s < shape.end(t); ++s)
                add_scaled(scratch.sums + s * shape.depth, row[s], queries.row(t), shape.depth);
        });
        write_rows(HeadRows<T>(outputs[1], b, g), scratch.sums, scale, shape.keys);
    });
}

const Signature& AttentionMix::signature() const {
    static const Signature forms[] = {Signature("~p[b h t! s!] ~v[b s! h d!] -> o[b t! h d!]"),
                                      Signature("~p[b g r t! s!] ~v[b s! g d!] -> o[b t! g r d!]")};
    return forms[form.grouped ? 1 : 0];
}

Cost AttentionMix::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = Extents(form, outputs[0], inputs[1]).flops();
    return cost;
}

std::int64_t AttentionMix::workspace_bytes(Views, Views) const {
    return 0;
}

void AttentionMix::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    const View o = heads_of(outputs[0]);
    const Extents e(form, o, inputs[1]);
    e.expect_probabilities(inputs[0], o.dtype);
    dispatch_float(o.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        parallel_tasks(e.groups(), [&](std::int64_t task, std::int64_t) {
            const std::int64_t b = task / e.shape.key_heads;
            const std::int64_t g = task % e.shape.key_heads;
            const HeadRows<T> values(inputs[1], b, g);
            each_query(e.shape, g, [&](std::int64_t h, std::int64_t t) {
                const HeadRows<T> to(o, b, h);
                const T* p = e.row<T>(inputs[0], b, h, t);
                for_vectors<A>(0, e.shape.depth, [&](std::int64_t d, auto n) {
                    Vec<A> sum{};
                    for (std::int64_t s = e.shape.begin(t); s < e.shape.end(t); ++s)
                        sum += static_cast<A>(p[s]) * load(values.row(s) + d, n);
                    store(to.row(t) + d, sum, n);
                });
            });
        });
    });
}

const Signature& AttentionMixBackward::signature() const {
    static const Signature forms[] = {
        Signature("do[b t! h d!] ~p[b h t! s!] ~v[b s! h d!] -> dp[b h t! s!] dv[b s! h d!]"),
        Signature("do[b t! g r d!] ~p[b g r t! s!] ~v[b s! g d!] -> dp[b g r t! s!] dv[b s! g d!]")};
    return forms[form.grouped ? 1 : 0];
}

Cost AttentionMixBackward::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 2 * Extents(form, inputs[0], inputs[2]).flops();
    return cost;
}

std::int64_t AttentionMixBackward::workspace_bytes(Views inputs, Views) const {
    return scratch_bytes(Extents(form, inputs[0], inputs[2]), inputs[0].dtype);
}

void AttentionMixBackward::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, 3, outputs, 2);
    const View doutput = heads_of(inputs[0]);
    const Extents e(form, doutput, inputs[2]);
    e.expect_probabilities(inputs[1], doutput.dtype);
    e.expect_probabilities(outputs[0], doutput.dtype);
    expect_heads(outputs[1], inputs[2], doutput.dtype);
    each_group(e, doutput.dtype, workspace, [&]<class T>(T, const auto& scratch, std::int64_t b, std::int64_t g) {
        using A = accumulator_t<T>;
        const AttentionShape& shape = e.shape;
        const HeadRows<T> values(inputs[2], b, g);
        std::fill_n(scratch.sums, shape.keys * shape.depth, A{});
        each_query(shape, g, [&](std::int64_t h, std::int64_t t) {
            const HeadRows<T> from(doutput, b, h);
            const T* p = e.row<T>(inputs[1], b, h, t);
            T* dp = e.row<T>(outputs[0], b, h, t);
            std::fill_n(dp, shape.keys, T{});
            for (std::int64_t s = shape.begin(t); s < shape.end(t); ++s) {
                dp[s] = static_cast<T>(dot(from.row(t), values.row(s), shape.depth));
                add_scaled(scratch.sums + s * shape.depth, static_cast<A>(p[s]), from.row(t), shape.depth);
            }
        });
        write_rows(HeadRows<T>(outputs[1], b, g), scratch.sums, A{1}, shape.keys);
    });
}

}  // namespace cleave::kernels

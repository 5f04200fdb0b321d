#include "kernels/optimizer.h"

#include "kernels/global_runs.h"
#include "kernels/operands.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrain = 8192;  // elements that are worth a thread

// The dtypes and shapes of g and the outputs; returns the working copy, if there is one.
bf16* expect_update(Views inputs, Views outputs, bool working_copy) {
    const View& g = inputs[0];
    CLEAVE_CHECK(g.dtype == DType::f32 || g.dtype == DType::f64, "an update in {}", name_of(g.dtype));
    expect_dense(g);
    for (const View& view : outputs.first(outputs.size() - (working_copy ? 1 : 0))) expect(view, g.shape, g.dtype);
    if (!working_copy) return nullptr;
    expect(outputs.back(), g.shape, DType::bf16);
    return outputs.back().as<bf16>();
}

// Calls f(T{}, index, count) for all vectors.
template <class F>
void each_update(const View& g, F&& f) {
    auto all = [&]<class A>(A) {
        parallel_for(g.elements(), kGrain, [&f](std::int64_t begin, std::int64_t end) {
            const auto local = f(A{});  // pointers and factors of its own: stores cannot alias them
            for_vectors<A>(begin, end, [&local](std::int64_t i, auto count) { local(i, count); });
        });
    };
    g.dtype == DType::f64 ? all(double{}) : all(float{});
}

template <class V, class Count>
CLEAVE_INLINE void store_copy(bf16* p, V v, Count count) {
    if constexpr (std::is_same_v<V, f32x16>) {
        if (p) store(p, v, count);
    } else {
        if (!p) return;
        for (int i = 0; i < count; ++i) p[i] = bf16(static_cast<float>(v[i]));
    }
}

CLEAVE_INLINE f64x8 load_f64(const float* p, Full<double>) {
    f32x8 v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, f64x8);
}
CLEAVE_INLINE f64x8 load_f64(const float* p, int count) {
    f64x8 v{};
    for (int i = 0; i < count; ++i) v[i] = static_cast<double>(p[i]);
    return v;
}

// The sum of squares of `n` elements, in f64.
double sum_of_squares(const double* g, std::int64_t n) {
    return sum_over<double>(n, [&](std::int64_t i, auto count) {
        const f64x8 v = load(g + i, count);
        return v * v;
    });
}
double sum_of_squares(const float* g, std::int64_t n) {
    return sum_over<double>(n, [&](std::int64_t i, auto count) {
        const f64x8 v = load_f64(g + i, count);
        return v * v;
    });
}

}  // namespace

const Signature& AdamW::signature() const {
    static const Signature plain("~g[*] -> p[*] m[*] v[*]");
    static const Signature with_copy("~g[*] -> p[*] m[*] v[*] copy[*]");
    return working_copy ? with_copy : plain;
}

Cost AdamW::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 16);
    for (const View& state : outputs.first(3)) cost.bytes += static_cast<double>(state.bytes());  // read as well
    return cost;
}

void AdamW::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, working_copy ? 4 : 3);
    bf16* copy = expect_update(inputs, outputs, working_copy);
    const double t = static_cast<double>(step);
    each_update(inputs[0], [&]<class A>(A) {
        return [copy, g = inputs[0].as<A>(), p = outputs[0].as<A>(), m = outputs[1].as<A>(), v = outputs[2].as<A>(),
                scale = static_cast<A>(gradient_scale), b1 = static_cast<A>(beta1), b2 = static_cast<A>(beta2),
                c1 = static_cast<A>(1 - beta1), c2 = static_cast<A>(1 - beta2), eps = static_cast<A>(epsilon),
                keep = static_cast<A>(1 - lr * weight_decay), rate = static_cast<A>(lr / (1 - std::pow(beta1, t))),
                root = static_cast<A>(1 / std::sqrt(1 - std::pow(beta2, t)))](std::int64_t i, auto count) {
            const Vec<A> grad = load(g + i, count) * scale;
            const Vec<A> first = b1 * load(m + i, count) + c1 * grad;
            const Vec<A> second = b2 * load(v + i, count) + c2 * grad * grad;
            const Vec<A> updated = keep * load(p + i, count) - rate * first / (simd::sqrt(second) * root + eps);
            store(m + i, first, count);
            store(v + i, second, count);
            store(p + i, updated, count);
            store_copy(copy ? copy + i : nullptr, updated, count);
        };
    });
}

const Signature& Sgd::signature() const {
    static const Signature plain("~g[*] -> p[*]");
    static const Signature with_copy("~g[*] -> p[*] copy[*]");
    return working_copy ? with_copy : plain;
}

Cost Sgd::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 4);
    cost.bytes += static_cast<double>(outputs[0].bytes());  // read as well
    return cost;
}

void Sgd::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, working_copy ? 2 : 1);
    bf16* copy = expect_update(inputs, outputs, working_copy);
    each_update(inputs[0], [&]<class A>(A) {
        return [copy, g = inputs[0].as<A>(), p = outputs[0].as<A>(), scale = static_cast<A>(gradient_scale),
                decay = static_cast<A>(weight_decay), rate = static_cast<A>(lr)](std::int64_t i, auto count) {
            const Vec<A> old = load(p + i, count);
            const Vec<A> updated = old - rate * (load(g + i, count) * scale + decay * old);
            store(p + i, updated, count);
            store_copy(copy ? copy + i : nullptr, updated, count);
        };
    });
}

Cost SquaredNorm::cost(Views inputs, Views) const {
    return {2 * static_cast<double>(inputs[0].elements()), static_cast<double>(inputs[0].bytes())};
}

void SquaredNorm::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    const View& g = inputs[0];
    CLEAVE_CHECK(g.dtype == DType::f32 || g.dtype == DType::f64, "a norm of {}", name_of(g.dtype));
    expect_dense(g);
    const std::int64_t blocks = (g.global.elements() + kNormBlock - 1) / kNormBlock;
    expect(outputs[0], Shape{blocks}, DType::f64);
    double* partial = outputs[0].as<double>();
    const GlobalRuns runs(g);
    auto all = [&]<class T>(const T* data) {
        // A thread owns blocks and takes from every run what falls into them.
        parallel_for(blocks, 4, [&](std::int64_t first, std::int64_t last) {
            std::fill(partial + first, partial + last, 0.0);
            for (std::int64_t r = 0; r < runs.count; ++r) {
                const std::int64_t start = runs.global_begin(r);
                std::int64_t at = std::max(start, first * kNormBlock);
                const std::int64_t end = std::min(start + runs.length, last * kNormBlock);
                while (at < end) {
                    const std::int64_t block = at / kNormBlock;
                    const std::int64_t stop = std::min(end, (block + 1) * kNormBlock);
                    partial[block] += sum_of_squares(data + r * runs.length + (at - start), stop - at);
                    at = stop;
                }
            }
        });
    };
    g.dtype == DType::f64 ? all(g.as<double>()) : all(g.as<float>());
}

}  // namespace cleave::kernels

#include "kernels/optimizer.h"

#include <array>
#include <atomic>
#include <limits>

#include "kernels/operands.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrain = 8192;  // elements that are worth a thread

// The outputs of an update behind the state, `states` tensors in g's dtype, that are there.
struct Extra {
    bf16* copy = nullptr;
    double* counts = nullptr;
};

Extra expect_update(Views inputs, Views outputs, std::size_t states, bool working_copy, bool count) {
    const View& g = inputs[0];
    CLEAVE_CHECK(g.dtype == DType::f32 || g.dtype == DType::f64, "an update in {}", name_of(g.dtype));
    expect_dense(g);
    for (const View& view : outputs.first(states)) expect(view, g.shape, g.dtype);
    Extra extra;
    if (working_copy) {
        expect(outputs[states], g.shape, DType::bf16);
        extra.copy = outputs[states].as<bf16>();
    }
    if (count) {
        expect(outputs.back(), Shape{kUpdateCounts}, DType::f64);
        extra.counts = outputs.back().as<double>();
    }
    return extra;
}

const Signature& form_of(const Signature (&forms)[4], bool working_copy, bool count) {
    return forms[(working_copy ? 1 : 0) + (count ? 2 : 0)];
}

// In bf16.
CLEAVE_INLINE f32x16 rounded(f32x16 v) {
    return widen(narrow(v));
}
CLEAVE_INLINE f64x8 rounded(f64x8 v) {
    for (int i = 0; i < 8; ++i) v[i] = static_cast<double>(static_cast<float>(bf16(static_cast<float>(v[i]))));
    return v;
}

// What one vector's update did: `kept` is what would have become of p without a gradient.
template <class A>
struct Update {
    Vec<A> raw_gradient, gradient, step, old, kept, updated;
};

// Counts by lanes, -1 for each.
template <class A>
class Tally {
  public:
    explicit Tally(bool has_copy) : has_copy_(has_copy) {}

    CLEAVE_INLINE void add(const Update<A>& u) {
        const Vec<A> normal = splat(std::numeric_limits<A>::min());
        lanes_[kGradientsUnderflowed] += (u.raw_gradient != 0) & (u.gradient < normal) & (u.gradient > -normal);
        lanes_[kUpdatesLost] += (u.step != 0) & (u.updated == u.kept);
        if (has_copy_) lanes_[kUpdatesWaiting] += (u.updated != u.old) & (rounded(u.updated) == rounded(u.old));
    }
    void add_to(std::array<std::atomic<std::int64_t>, kUpdateCounts>& totals) const {
        for (std::size_t c = 0; c < kUpdateCounts; ++c)
            for (int i = 0; i < kLanes<A>; ++i) totals[c] -= lanes_[c][i];
    }

  private:
    using Lanes = decltype(Vec<A>{} < Vec<A>{});
    bool has_copy_;
    Lanes lanes_[kUpdateCounts]{};
};

// Calls f(T{}) for each thread and that for all its vectors, with (index, count, done): done takes the vector's Update.
template <class F>
void each_update(const View& g, const Extra& extra, F&& f) {
    std::array<std::atomic<std::int64_t>, kUpdateCounts> totals{};  // whole numbers: in any order the same
    auto all = [&]<class A>(A) {
        parallel_for(g.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
            const auto local = f(A{});  // pointers and factors of its own: stores cannot alias them
            if (extra.counts == nullptr) {
                for_vectors<A>(begin, end, [&](std::int64_t i, auto n) { local(i, n, [](const Update<A>&) {}); });
                return;
            }
            Tally<A> tally(extra.copy != nullptr);
            for_vectors<A>(begin, end, [&](std::int64_t i, auto n) {
                local(i, n, [&tally](const Update<A>& update) { tally.add(update); });
            });
            tally.add_to(totals);
        });
    };
    g.dtype == DType::f64 ? all(double{}) : all(float{});
    if (extra.counts != nullptr) std::copy(totals.begin(), totals.end(), extra.counts);
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
template <class Count>
CLEAVE_INLINE f64x8 load_f64(const double* p, Count count) {
    return load(p, count);
}
CLEAVE_INLINE f64x8 load_f64(const float* p, int count) {
    f64x8 v{};
    for (int i = 0; i < count; ++i) v[i] = static_cast<double>(p[i]);
    return v;
}

// The sum of squares of `n` elements, in f64. A square of an f32 is exact there.
template <class T>
double sum_of_squares(const T* g, std::int64_t n) {
    constexpr std::int64_t kAhead = 8192 / sizeof(T);  // two pages: the processor's own prefetching ends with a page
    return sums_over<double, 1>(n, [&](std::int64_t i, auto count, auto& sums) {
        fetch(g + i + kAhead);
        const f64x8 v = load_f64(g + i, count);
        sums[0] = fma(v, v, sums[0]);
    })[0];
}

}  // namespace

const Signature& AdamW::signature() const {
    static const Signature forms[] = {
        Signature("~g[*] -> p[*] m[*] v[*]"), Signature("~g[*] -> p[*] m[*] v[*] copy[*]"),
        Signature("~g[*] -> p[*] m[*] v[*] counts[k!]"), Signature("~g[*] -> p[*] m[*] v[*] copy[*] counts[k!]")};
    return form_of(forms, working_copy, count);
}

Cost AdamW::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 16);
    for (const View& state : outputs.first(3)) cost.bytes += static_cast<double>(state.bytes());  // read as well
    return cost;
}

void AdamW::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 3 + (working_copy ? 1 : 0) + (count ? 1 : 0));
    const Extra extra = expect_update(inputs, outputs, 3, working_copy, count);
    const double t = static_cast<double>(step);
    each_update(inputs[0], extra, [&]<class A>(A) {
        return [copy = extra.copy, g = inputs[0].as<A>(), p = outputs[0].as<A>(), m = outputs[1].as<A>(),
                v = outputs[2].as<A>(), scale = static_cast<A>(gradient_scale), b1 = static_cast<A>(beta1),
                b2 = static_cast<A>(beta2), c1 = static_cast<A>(1 - beta1), c2 = static_cast<A>(1 - beta2),
                eps = static_cast<A>(epsilon), keep = static_cast<A>(1 - lr * weight_decay),
                rate = static_cast<A>(lr / (1 - std::pow(beta1, t))),
                root = static_cast<A>(1 / std::sqrt(1 - std::pow(beta2, t)))](std::int64_t i, auto n, auto&& done) {
            const Vec<A> raw = load(g + i, n);
            const Vec<A> grad = raw * scale;
            const Vec<A> first = b1 * load(m + i, n) + c1 * grad;
            const Vec<A> second = b2 * load(v + i, n) + c2 * grad * grad;
            const Vec<A> old = load(p + i, n);
            const Vec<A> kept = keep * old;
            const Vec<A> change = rate * first / (simd::sqrt(second) * root + eps);
            const Vec<A> updated = kept - change;
            store(m + i, first, n);
            store(v + i, second, n);
            store(p + i, updated, n);
            store_copy(copy ? copy + i : nullptr, updated, n);
            done(Update<A>{raw, grad, change, old, kept, updated});
        };
    });
}

const Signature& Sgd::signature() const {
    static const Signature forms[] = {Signature("~g[*] -> p[*]"), Signature("~g[*] -> p[*] copy[*]"),
                                      Signature("~g[*] -> p[*] counts[k!]"),
                                      Signature("~g[*] -> p[*] copy[*] counts[k!]")};
    return form_of(forms, working_copy, count);
}

Cost Sgd::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 4);
    cost.bytes += static_cast<double>(outputs[0].bytes());  // read as well
    return cost;
}

void Sgd::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1 + (working_copy ? 1 : 0) + (count ? 1 : 0));
    const Extra extra = expect_update(inputs, outputs, 1, working_copy, count);
    each_update(inputs[0], extra, [&]<class A>(A) {
        return
            [copy = extra.copy, g = inputs[0].as<A>(), p = outputs[0].as<A>(), scale = static_cast<A>(gradient_scale),
             decay = static_cast<A>(weight_decay), rate = static_cast<A>(lr)](std::int64_t i, auto n, auto&& done) {
                const Vec<A> raw = load(g + i, n);
                const Vec<A> grad = raw * scale;
                const Vec<A> old = load(p + i, n);
                const Vec<A> change = rate * (grad + decay * old);
                const Vec<A> updated = old - change;
                store(p + i, updated, n);
                store_copy(copy ? copy + i : nullptr, updated, n);
                done(Update<A>{raw, grad, change, old, old, updated});
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
    const std::int64_t blocks = g.shape[0];
    const std::int64_t length = g.shape[1];
    expect(outputs[0], Shape{blocks}, DType::f64);
    double* partial = outputs[0].as<double>();
    auto all = [&]<class T>(const T* data) {
        parallel_for(blocks, kGrain / kNormBlock, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t b = first; b < last; ++b) partial[b] = sum_of_squares(data + b * length, length);
        });
    };
    g.dtype == DType::f64 ? all(g.as<double>()) : all(g.as<float>());
}

}  // namespace cleave::kernels

#include "kernels/activation.h"

#include "kernels/each_vector.h"
#include "kernels/simd_math.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrain = 4096;  // elements that are worth a thread

// tanh(u) = 2 logistic(2u) - 1, hence gelu(x) = x logistic(2u): no cancellation for large negative x.
constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;

template <class V>
CLEAVE_INLINE V gelu_logistic(V x) {
    using A = Lane<V>;
    return logistic(x *
                    simd::fma(x * x, splat(static_cast<A>(kTwiceRoot * kCubic)), splat(static_cast<A>(kTwiceRoot))));
}

}  // namespace

void Gelu::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    each_vector<1, 1>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        const auto x = load(in[0] + i, count);
        store(out[0] + i, x * gelu_logistic(x), count);
    });
}

// d/dx x s(2u) = s + x s (1 - s) 2 du/dx, which is exactly 0 or 1 beyond kSteep; x^2 of larger x may have no number.
constexpr double kSteep = 64;
void GeluBackward::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    each_vector<2, 1>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        const auto dy = load(in[0] + i, count);
        using A = Lane<std::remove_const_t<decltype(dy)>>;
        const auto x = clamp(load(in[1] + i, count), static_cast<A>(kSteep));
        const auto s = gelu_logistic(x);
        const auto slope = static_cast<A>(kTwiceRoot) * (1 + static_cast<A>(3 * kCubic) * x * x);
        store(out[0] + i, dy * (s + x * s * (1 - s) * slope), count);
    });
}

void Relu::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    each_vector<1, 1>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        const auto x = load(in[0] + i, count);
        const std::remove_const_t<decltype(x)> zero{};
        store(out[0] + i, x < zero ? zero : x, count);  // what is not a number stays so
    });
}

void ReluBackward::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    each_vector<2, 1>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        const auto dy = load(in[0] + i, count);
        const auto x = load(in[1] + i, count);
        const std::remove_const_t<decltype(x)> zero{};
        store(out[0] + i, x > zero ? dy : zero, count);
    });
}

void SwiGlu::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    each_vector<2, 1>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        const auto gate = load(in[0] + i, count);
        const auto up = load(in[1] + i, count);
        store(out[0] + i, gate * logistic(gate) * up, count);
    });
}

void SwiGluBackward::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 3, outputs, 2);
    each_vector<3, 2>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        const auto dy = load(in[0] + i, count);
        const auto gate = load(in[1] + i, count);
        const auto up = load(in[2] + i, count);
        const auto s = logistic(gate);
        store(out[0] + i, dy * up * s * (1 + gate * (1 - s)), count);
        store(out[1] + i, dy * gate * s, count);
    });
}

}  // namespace cleave::kernels

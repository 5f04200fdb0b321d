#include "kernels/rotary.h"

#include "kernels/operands.h"
#include "kernels/simd_math.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrainElements = 8192;       // elements that are worth a thread
constexpr std::int64_t kAngleGrain = 1024;          // the same for sines and cosines
constexpr std::int64_t kLargestPosition = 1 << 20;  // up to which sine_cosine is accurate

View with_one_dim_of_heads(const View& x) {
    return x.shape.rank() == 5 ? merged(x, 2) : x;
}

// d / 2, rounded up to whole vectors of f64.
std::int64_t padded_half(const View& x) {
    return (x.shape.back() / 2 + kLanes<double> - 1) / kLanes<double> * kLanes<double>;
}

}  // namespace

// cos[t, padded d / 2] and sin[..] in the accumulator's dtype, and the turn a position[padded d / 2] in f32.
std::int64_t Rotary::workspace_bytes(Views inputs, Views) const {
    const View& x = inputs[0];
    const std::int64_t bytes =
        padded_half(x) * (2 * x.shape[1] * size_of(accumulator_of(x.dtype)) + size_of(DType::f32));
    return (bytes + 63) / 64 * 64;
}

void Rotary::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, 1, outputs, 1);
    const View x = with_one_dim_of_heads(inputs[0]);
    const View y = with_one_dim_of_heads(outputs[0]);
    expect_shape(y, x.shape);
    CLEAVE_CHECK(
        x.shape.rank() == 4 && x.shape[3] % 2 == 0 && x.strides[3] == 1 && y.strides[3] == 1 && x.dtype == y.dtype,
        "rotary of {}", to_string(x.shape));
    const std::int64_t steps = x.shape[1];
    const std::int64_t heads = x.shape[2];
    const std::int64_t half = x.shape[3] / 2;
    const std::int64_t padded = padded_half(x);
    if (x.elements() == 0) return;
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        A* cosines = static_cast<A*>(workspace);
        A* sines = cosines + steps * padded;
        float* turn = reinterpret_cast<float*>(sines + steps * padded);
        for (std::int64_t i = 0; i < padded; ++i) turn[i] = i < half ? frequencies.at(i, 2 * half) : 0;
        const std::int64_t origin = x.offset[1] + position0;
        CLEAVE_CHECK(origin + steps < kLargestPosition, "rotary at position {}", origin + steps);
        parallel_for(steps, std::max<std::int64_t>(1, kAngleGrain / half), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t t = begin; t < end; ++t)
                for (std::int64_t i = 0; i < padded; i += kLanes<double>) {
                    f64x8 sine, cosine, angle;
                    for (int lane = 0; lane < kLanes<double>; ++lane)
                        angle[lane] = static_cast<float>(origin + t) * turn[i + lane];
                    sine_cosine(angle, sine, cosine);
                    if (inverse) sine = -sine;
                    for (int lane = 0; lane < kLanes<double>; ++lane) {
                        cosines[t * padded + i + lane] = static_cast<A>(cosine[lane]);
                        sines[t * padded + i + lane] = static_cast<A>(sine[lane]);
                    }
                }
        });
        const T* in = x.as<T>();
        T* out = y.as<T>();
        const std::int64_t grain = std::max<std::int64_t>(1, kGrainElements / (heads * half * 2));
        parallel_for(x.shape[0] * steps, grain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / steps;
                const std::int64_t t = row % steps;
                for (std::int64_t h = 0; h < heads; ++h) {
                    const T* from = in + b * x.strides[0] + t * x.strides[1] + h * x.strides[2];
                    T* to = out + b * y.strides[0] + t * y.strides[1] + h * y.strides[2];
                    for_vectors<A>(0, half, [&](std::int64_t i, auto count) {
                        const auto low = load(from + i, count);
                        const auto high = load(from + half + i, count);
                        const auto c = load(cosines + t * padded + i, count);
                        const auto s = load(sines + t * padded + i, count);
                        store(to + i, low * c - high * s, count);
                        store(to + half + i, high * c + low * s, count);
                    });
                }
            }
        });
    });
}

}  // namespace cleave::kernels

#include "kernels/norm.h"

#include "kernels/column_sum.h"
#include "kernels/operands.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrainElements = 8192;  // elements that are worth a thread

std::int64_t row_grain(std::int64_t width) {
    return std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, width));
}

// Rows are taken in blocks, one pass over the block for each step, so that the latencies of one row's sums are hidden
// behind the next row's. A block stays in the level-1 cache.
constexpr std::int64_t kBlockElements = 4096;

// Whether rows of results are larger together than caches are, and each made of whole vectors.
constexpr std::int64_t kBeyondCaches = 32 << 20;
bool streams(const View& rows) {
    const std::int64_t vector = 64 / size_of(accumulator_of(rows.dtype)) * size_of(rows.dtype);  // bytes
    return rows.bytes() >= kBeyondCaches && rows.shape.back() * size_of(rows.dtype) % vector == 0 &&
           reinterpret_cast<std::uintptr_t>(rows.data) % static_cast<std::uintptr_t>(vector) == 0;
}
template <bool kStreams, class T, class V, class Count>
CLEAVE_INLINE void store_row(T* p, V v, Count count) {
    if constexpr (kStreams && std::is_same_v<Count, Full<accumulator_t<T>>>)
        stream(p, v);
    else
        store(p, v, count);
}

// RmsNorm is LayerNorm with mean 0 and no bias: it is not `centred`, and `bias` and `mean` are not read.
template <class T, bool kCentred>
struct Norm {
    using A = accumulator_t<T>;
    const T* x;
    const T* gain;
    const T* bias;
    T* y;
    A* mean;
    A* rstd;
    std::int64_t width;
    A epsilon;

    template <int kRows, bool kStreams>
    void block(std::int64_t first) const {
        const T* in = x + first * width;
        T* out = y + first * width;
        A centre[kRows]{};
        A scale[kRows];
        if constexpr (kCentred)
            for (std::int64_t r = 0; r < kRows; ++r)
                mean[first + r] = centre[r] =
                    sum_over<A>(width, [&](std::int64_t i, auto count) { return load(in + r * width + i, count); }) /
                    static_cast<A>(width);
        for (std::int64_t r = 0; r < kRows; ++r) {
            const auto square = sums_over<A, 1>(width, [&](std::int64_t i, auto count, auto& sums) {
                const Vec<A> d = select_first(load(in + r * width + i, count) - centre[r], Vec<A>{}, count);
                sums[0] = fma(d, d, sums[0]);
            });
            rstd[first + r] = scale[r] = 1 / std::sqrt(square[0] / static_cast<A>(width) + epsilon);
        }
        for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
            const Vec<A> factor = load(gain + i, count);
            Vec<A> term{};
            if constexpr (kCentred) term = load(bias + i, count);
            CLEAVE_UNROLL
            for (std::int64_t r = 0; r < kRows; ++r) {
                const Vec<A> unit = (load(in + r * width + i, count) - centre[r]) * scale[r];
                fetch(in + (r + kRows) * width + i);  // the processor's own prefetching pauses meanwhile
                store_row<kStreams>(out + r * width + i, kCentred ? fma(unit, factor, term) : unit * factor, count);
            }
        });
    }
};

// With g = dy gain, d = x - mean:  dx = rstd (g - sum(g)/c - d rstd^2 sum(g d)/c); RmsNorm has no sum(g).
template <class T, bool kCentred>
struct NormBackwardInput {
    using A = accumulator_t<T>;
    const T* dy;
    const T* x;
    const T* gain;
    const A* mean;
    const A* rstd;
    T* dx;
    std::int64_t width;

    template <int kRows, bool kStreams>
    void block(std::int64_t first) const {
        const T* above = dy + first * width;
        const T* in = x + first * width;
        T* out = dx + first * width;
        A centre[kRows]{};
        A scale[kRows];
        A mean_g[kRows];
        A slope[kRows];
        constexpr std::size_t kSums = kCentred ? 2 : 1;
        for (std::int64_t r = 0; r < kRows; ++r) {
            if constexpr (kCentred) centre[r] = mean[first + r];
            scale[r] = rstd[first + r];
            const auto sums = sums_over<A, kSums>(width, [&](std::int64_t i, auto count, auto& s) {
                const Vec<A> g = load(above + r * width + i, count) * load(gain + i, count);
                s[0] = fma(g, load(in + r * width + i, count) - centre[r], s[0]);
                if constexpr (kCentred) s[1] += g;
            });
            slope[r] = scale[r] * (scale[r] * (sums[0] / static_cast<A>(width)));
            mean_g[r] = kCentred ? sums.back() / static_cast<A>(width) : A{};
        }
        for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
            const Vec<A> factor = load(gain + i, count);
            CLEAVE_UNROLL
            for (std::int64_t r = 0; r < kRows; ++r) {
                const Vec<A> d = centre[r] - load(in + r * width + i, count);
                Vec<A> rest = load(above + r * width + i, count) * factor;
                if constexpr (kCentred) rest -= mean_g[r];
                fetch(above + (r + kRows) * width + i);
                fetch(in + (r + kRows) * width + i);
                store_row<kStreams>(out + r * width + i, scale[r] * fma(d, splat(slope[r]), rest), count);
            }
        });
    }
};

// Rows [begin, end) in blocks of kRows, what is left in smaller ones.
template <int kRows, bool kStreams, class Rows>
void each_block(const Rows& norm, std::int64_t begin, std::int64_t end) {
    for (; begin + kRows <= end; begin += kRows) norm.template block<kRows, kStreams>(begin);
    if constexpr (kRows > 1) each_block<kRows / 2, kStreams>(norm, begin, end);
}

template <class Rows>
void each_row(std::int64_t rows, bool streams, const Rows& norm) {
    parallel_for(rows, row_grain(norm.width), [&](std::int64_t begin, std::int64_t end) {
        const Rows local = norm;  // a copy of its own: stores cannot alias its members
        auto run = [&]<int kRows>(std::integral_constant<int, kRows>) {
            streams ? each_block<kRows, true>(local, begin, end) : each_block<kRows, false>(local, begin, end);
            if (streams) end_streams();
        };
        const std::int64_t fitting = kBlockElements / std::max<std::int64_t>(1, norm.width);
        if (fitting >= 4) return run(std::integral_constant<int, 4>{});
        if (fitting >= 2) return run(std::integral_constant<int, 2>{});
        run(std::integral_constant<int, 1>{});
    });
}

template <bool kCentred>
void forward(const Kernel& kernel, Views inputs, Views outputs, double epsilon) {
    expect_count(kernel, inputs, kCentred ? 3 : 2, outputs, kCentred ? 3 : 2);
    const View& x = inputs[0];
    const Shape width{x.shape.back()};
    const Shape rows = leading(x.shape);
    expect(x, x.shape, x.dtype);
    expect(outputs[0], x.shape, x.dtype);
    for (const View& weight : inputs.subspan(1)) expect(weight, width, x.dtype);
    for (const View& saved : outputs.subspan(1)) expect(saved, rows, accumulator_of(x.dtype));
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        each_row(rows.elements(), streams(outputs[0]),
                 Norm<T, kCentred>{.x = x.as<T>(),
                                   .gain = inputs[1].as<T>(),
                                   .bias = kCentred ? inputs[2].as<T>() : nullptr,
                                   .y = outputs[0].as<T>(),
                                   .mean = kCentred ? outputs[1].as<A>() : nullptr,
                                   .rstd = outputs.back().as<A>(),
                                   .width = width[0],
                                   .epsilon = static_cast<A>(epsilon)});
    });
}

template <bool kCentred>
void backward_input(const Kernel& kernel, Views inputs, Views outputs) {
    expect_count(kernel, inputs, kCentred ? 5 : 4, outputs, 1);
    const View& x = inputs[1];
    const Shape rows = leading(x.shape);
    for (const View* view : {&inputs[0], &x, &outputs[0]}) expect(*view, x.shape, x.dtype);
    expect(inputs[2], Shape{x.shape.back()}, x.dtype);
    for (const View& saved : inputs.subspan(3)) expect(saved, rows, accumulator_of(x.dtype));
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        each_row(rows.elements(), streams(outputs[0]),
                 NormBackwardInput<T, kCentred>{.dy = inputs[0].as<T>(),
                                                .x = x.as<T>(),
                                                .gain = inputs[2].as<T>(),
                                                .mean = kCentred ? inputs[3].as<A>() : nullptr,
                                                .rstd = inputs.back().as<A>(),
                                                .dx = outputs[0].as<T>(),
                                                .width = x.shape.back()});
    });
}

template <bool kCentred>
void backward_weight(const Kernel& kernel, Views inputs, Views outputs) {
    expect_count(kernel, inputs, kCentred ? 4 : 3, outputs, kCentred ? 2 : 1);
    const View& x = inputs[1];
    const Shape rows = leading(x.shape);
    const std::int64_t width = x.shape.back();
    expect(inputs[0], x.shape, x.dtype);
    expect(x, x.shape, x.dtype);
    for (const View& saved : inputs.subspan(2)) expect(saved, rows, accumulator_of(x.dtype));
    for (const View& grad : outputs) expect(grad, Shape{width}, accumulator_of(x.dtype));
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        std::array<A*, kCentred ? 2 : 1> sums;
        for (std::size_t o = 0; o < sums.size(); ++o) sums[o] = outputs[o].as<A>();
        add_columns<A>(rows.elements(), width, sums,
                       [dy = inputs[0].as<T>(), in = x.as<T>(), mean = kCentred ? inputs[2].as<A>() : nullptr,
                        rstd = inputs.back().as<A>(), width](std::int64_t r, std::int64_t i, auto count) {
                           const Vec<A> above = load(dy + r * width + i, count);
                           Vec<A> d = load(in + r * width + i, count);
                           if constexpr (kCentred) d -= mean[r];
                           fetch(dy + (r + kRowBlock) * width + i);
                           fetch(in + (r + kRowBlock) * width + i);
                           if constexpr (kCentred)
                               return std::array{above * (d * rstd[r]), above};
                           else
                               return std::array{above * (d * rstd[r])};
                       });
    });
}

}  // namespace

void LayerNorm::run(Views inputs, Views outputs, void*) const {
    forward<true>(*this, inputs, outputs, epsilon);
}

void LayerNormBackwardInput::run(Views inputs, Views outputs, void*) const {
    backward_input<true>(*this, inputs, outputs);
}

Cost LayerNormBackwardWeight::cost(Views inputs, Views) const {
    return elementwise_cost({}, inputs, 5);
}

void LayerNormBackwardWeight::run(Views inputs, Views outputs, void*) const {
    backward_weight<true>(*this, inputs, outputs);
}

void RmsNorm::run(Views inputs, Views outputs, void*) const {
    forward<false>(*this, inputs, outputs, epsilon);
}

void RmsNormBackwardInput::run(Views inputs, Views outputs, void*) const {
    backward_input<false>(*this, inputs, outputs);
}

Cost RmsNormBackwardWeight::cost(Views inputs, Views) const {
    return elementwise_cost({}, inputs, 3);
}

void RmsNormBackwardWeight::run(Views inputs, Views outputs, void*) const {
    backward_weight<false>(*this, inputs, outputs);
}

}  // namespace cleave::kernels

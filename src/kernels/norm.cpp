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
constexpr std::int64_t kBlockRows = 8;
constexpr std::int64_t kBlockElements = 4096;

// Whether rows of results are larger together than caches are, and each made of whole vectors.
constexpr std::int64_t kBeyondCaches = 32 << 20;
bool streams(const View& rows) {
    const std::int64_t vector = 64 / size_of(accumulator_of(rows.dtype)) * size_of(rows.dtype);  // bytes
    return rows.bytes() >= kBeyondCaches && rows.shape.back() * size_of(rows.dtype) % vector == 0 &&
           reinterpret_cast<std::uintptr_t>(rows.data) % static_cast<std::uintptr_t>(vector) == 0;
}
template <class T, class V, class Count>
CLEAVE_INLINE void store_row(T* p, V v, Count count, bool streams) {
    if constexpr (std::is_same_v<Count, Full<accumulator_t<T>>>)
        if (streams) return stream(p, v);
    store(p, v, count);
}
// To be called with every vector: the processor's own prefetching pauses while a block is worked on.
template <class T>
CLEAVE_INLINE void fetch(const T* p) {
    __builtin_prefetch(p, 0, 2);
}

// RmsNorm is LayerNorm with mean 0 and no bias: `bias` and `mean` are null then.
template <class T>
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
    bool streams;

    void block(std::int64_t first, std::int64_t last) const {
        const T* next = x + (last - first) * width;  // of an element, that of the block to come
        A centre[kBlockRows]{};
        A scale[kBlockRows];
        for (std::int64_t r = first; mean && r < last; ++r)
            mean[r] = centre[r - first] =
                sum_over<A>(width, [&](std::int64_t i, auto count) { return load(x + r * width + i, count); }) /
                static_cast<A>(width);
        for (std::int64_t r = first; r < last; ++r) {
            const A square = sum_over<A>(width, [&](std::int64_t i, auto count) {
                const auto d = select_first(load(x + r * width + i, count) - centre[r - first], Vec<A>{}, count);
                return d * d;
            });
            rstd[r] = scale[r - first] = 1 / std::sqrt(square / static_cast<A>(width) + epsilon);
        }
        for (std::int64_t r = first; r < last; ++r)
            for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
                auto out =
                    (load(x + r * width + i, count) - centre[r - first]) * scale[r - first] * load(gain + i, count);
                if (bias) out += load(bias + i, count);
                fetch(next + r * width + i);
                store_row(y + r * width + i, out, count, streams);
            });
    }
};

// With g = dy gain and h = (x - mean) rstd:  dx = rstd (g - sum(g)/c - h sum(g h)/c); RmsNorm has no sum(g).
template <class T>
struct NormBackwardInput {
    using A = accumulator_t<T>;
    const T* dy;
    const T* x;
    const T* gain;
    const A* mean;
    const A* rstd;
    T* dx;
    std::int64_t width;
    bool streams;

    auto g(std::int64_t r, std::int64_t i, auto count) const {
        return load(dy + r * width + i, count) * load(gain + i, count);
    }
    auto h(std::int64_t r, std::int64_t i, auto count) const {
        return (load(x + r * width + i, count) - (mean ? mean[r] : A{})) * rstd[r];
    }

    void block(std::int64_t first, std::int64_t last) const {
        A mean_g[kBlockRows]{};
        A mean_gh[kBlockRows];
        for (std::int64_t r = first; mean && r < last; ++r)
            mean_g[r - first] =
                sum_over<A>(width, [&](std::int64_t i, auto count) { return g(r, i, count); }) / static_cast<A>(width);
        for (std::int64_t r = first; r < last; ++r)
            mean_gh[r - first] =
                sum_over<A>(width, [&](std::int64_t i, auto count) { return g(r, i, count) * h(r, i, count); }) /
                static_cast<A>(width);
        for (std::int64_t r = first; r < last; ++r)
            for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
                const auto rest = g(r, i, count) - mean_g[r - first] - h(r, i, count) * mean_gh[r - first];
                fetch(dy + (r + last - first) * width + i);
                fetch(x + (r + last - first) * width + i);
                store_row(dx + r * width + i, rstd[r] * rest, count, streams);
            });
    }
};

template <class Rows>
void each_row(std::int64_t rows, const Rows& norm) {
    const std::int64_t fitting = kBlockElements / std::max<std::int64_t>(1, norm.width);
    const std::int64_t block = std::clamp<std::int64_t>(fitting, 1, kBlockRows);
    parallel_for(rows, row_grain(norm.width), [&norm, block](std::int64_t begin, std::int64_t end) {
        const Rows local = norm;  // a copy of its own: stores cannot alias its members
        for (std::int64_t r = begin; r < end; r += block) local.block(r, std::min(end, r + block));
        end_streams();
    });
}

void forward(const Kernel& kernel, Views inputs, Views outputs, bool centred, double epsilon) {
    expect_count(kernel, inputs, centred ? 3 : 2, outputs, centred ? 3 : 2);
    const View& x = inputs[0];
    const Shape width{x.shape.back()};
    const Shape rows = leading(x.shape);
    expect(x, x.shape, x.dtype);
    expect(outputs[0], x.shape, x.dtype);
    for (const View& weight : inputs.subspan(1)) expect(weight, width, x.dtype);
    for (const View& saved : outputs.subspan(1)) expect(saved, rows, accumulator_of(x.dtype));
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        each_row(rows.elements(), Norm<T>{.x = x.as<T>(),
                                          .gain = inputs[1].as<T>(),
                                          .bias = centred ? inputs[2].as<T>() : nullptr,
                                          .y = outputs[0].as<T>(),
                                          .mean = centred ? outputs[1].as<A>() : nullptr,
                                          .rstd = outputs.back().as<A>(),
                                          .width = width[0],
                                          .epsilon = static_cast<A>(epsilon),
                                          .streams = streams(outputs[0])});
    });
}

void backward_input(const Kernel& kernel, Views inputs, Views outputs, bool centred) {
    expect_count(kernel, inputs, centred ? 5 : 4, outputs, 1);
    const View& x = inputs[1];
    const Shape rows = leading(x.shape);
    for (const View* view : {&inputs[0], &x, &outputs[0]}) expect(*view, x.shape, x.dtype);
    expect(inputs[2], Shape{x.shape.back()}, x.dtype);
    for (const View& saved : inputs.subspan(3)) expect(saved, rows, accumulator_of(x.dtype));
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        each_row(rows.elements(), NormBackwardInput<T>{.dy = inputs[0].as<T>(),
                                                       .x = x.as<T>(),
                                                       .gain = inputs[2].as<T>(),
                                                       .mean = centred ? inputs[3].as<A>() : nullptr,
                                                       .rstd = inputs.back().as<A>(),
                                                       .dx = outputs[0].as<T>(),
                                                       .width = x.shape.back(),
                                                       .streams = streams(outputs[0])});
    });
}

void backward_weight(const Kernel& kernel, Views inputs, Views outputs, bool centred) {
    expect_count(kernel, inputs, centred ? 4 : 3, outputs, centred ? 2 : 1);
    const View& x = inputs[1];
    const Shape rows = leading(x.shape);
    const std::int64_t width = x.shape.back();
    expect(inputs[0], x.shape, x.dtype);
    expect(x, x.shape, x.dtype);
    for (const View& saved : inputs.subspan(2)) expect(saved, rows, accumulator_of(x.dtype));
    for (const View& grad : outputs) expect(grad, Shape{width}, accumulator_of(x.dtype));
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* dy = inputs[0].as<T>();
        const T* in = x.as<T>();
        const A* mean = centred ? inputs[2].as<A>() : nullptr;
        const A* rstd = inputs.back().as<A>();
        auto gain_term = [=](std::int64_t r, std::int64_t i, auto count) {
            const A centre = mean ? mean[r] : A{};
            return load(dy + r * width + i, count) * ((load(in + r * width + i, count) - centre) * rstd[r]);
        };
        if (!centred)
            return add_columns<A>(rows.elements(), width, std::array{outputs[0].as<A>()},
                                  [&](auto... at) { return std::array{gain_term(at...)}; });
        auto bias_term = [=](std::int64_t r, std::int64_t i, auto count) { return load(dy + r * width + i, count); };
        add_columns<A>(rows.elements(), width, std::array{outputs[0].as<A>(), outputs[1].as<A>()}, [&](auto... at) {
            return std::array{gain_term(at...), bias_term(at...)};
        });
    });
}

}  // namespace

void LayerNorm::run(Views inputs, Views outputs, void*) const {
    forward(*this, inputs, outputs, true, epsilon);
}

void LayerNormBackwardInput::run(Views inputs, Views outputs, void*) const {
    backward_input(*this, inputs, outputs, true);
}

Cost LayerNormBackwardWeight::cost(Views inputs, Views) const {
    return elementwise_cost({}, inputs, 5);
}

void LayerNormBackwardWeight::run(Views inputs, Views outputs, void*) const {
    backward_weight(*this, inputs, outputs, true);
}

void RmsNorm::run(Views inputs, Views outputs, void*) const {
    forward(*this, inputs, outputs, false, epsilon);
}

void RmsNormBackwardInput::run(Views inputs, Views outputs, void*) const {
    backward_input(*this, inputs, outputs, false);
}

Cost RmsNormBackwardWeight::cost(Views inputs, Views) const {
    return elementwise_cost({}, inputs, 3);
}

void RmsNormBackwardWeight::run(Views inputs, Views outputs, void*) const {
    backward_weight(*this, inputs, outputs, false);
}

}  // namespace cleave::kernels

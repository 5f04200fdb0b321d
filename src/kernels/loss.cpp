#include "kernels/loss.h"

#include <limits>

#include "kernels/operands.h"
#include "kernels/simd_math.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrainElements = 2048;  // logits that are worth a thread

std::int64_t row_grain(std::int64_t width) {
    return std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, width));
}

void expect_label(std::int32_t label, std::int64_t width) {
    CLEAVE_CHECK(label >= 0 && label < width, "label {} of {} classes", label, width);
}

template <class T>
accumulator_t<T> log_sum_exp(const T* row, std::int64_t width) {
    using A = accumulator_t<T>;
    const Vec<A> lowest = splat(-std::numeric_limits<A>::infinity());
    Vec<A> highest = lowest;
    for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
        highest = max(select_first(load(row + i, count), lowest, count), highest);
    });
    const A top = largest(highest);
    const A sum = sum_over<A>(width, [&](std::int64_t i, auto count) {
        return select_first(exp(load(row + i, count) - top), Vec<A>{}, count);
    });
    return top + std::log(sum);
}

}  // namespace

Cost CrossEntropy::cost(Views inputs, Views) const {
    const double elements = static_cast<double>(inputs[0].elements());
    return {16 * elements, static_cast<double>(inputs[0].bytes() + inputs[1].bytes())};
}

void CrossEntropy::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 2);
    const View& logits = inputs[0];
    const Shape rows = leading(logits.shape);
    const std::int64_t width = logits.shape.back();
    expect_dense(logits);
    expect(inputs[1], rows, DType::i32);
    expect(outputs[0], Shape{}, accumulator_of(logits.dtype));
    expect(outputs[1], rows, accumulator_of(logits.dtype));
    const std::int32_t* labels = inputs[1].as<std::int32_t>();
    dispatch_float(logits.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* x = logits.as<T>();
        A* lse = outputs[1].as<A>();
        parallel_for(rows.elements(), row_grain(width), [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) lse[r] = log_sum_exp(x + r * width, width);
        });
        double loss = 0;
        for (std::int64_t r = 0; r < rows.elements(); ++r) {
            if (labels[r] == ignore) continue;
            expect_label(labels[r], width);
            loss += static_cast<double>(lse[r] - static_cast<A>(x[r * width + labels[r]]));
        }
        *outputs[0].as<A>() = static_cast<A>(scale * loss);
    });
}

Cost ZLoss::cost(Views inputs, Views) const {
    return {2 * static_cast<double>(inputs[0].elements()), static_cast<double>(inputs[0].bytes() + inputs[1].bytes())};
}

void ZLoss::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    const View& lse = inputs[0];
    expect_dense(lse);
    expect(inputs[1], lse.shape, DType::i32);
    expect(outputs[0], Shape{}, lse.dtype);
    const std::int32_t* labels = inputs[1].as<std::int32_t>();
    const auto sum_squares = [&]<class A>(A) {
        double sum = 0;
        for (std::int64_t r = 0; r < lse.elements(); ++r) {
            const auto value = static_cast<double>(lse.as<A>()[r]);
            if (labels[r] != ignore) sum += value * value;
        }
        *outputs[0].as<A>() = static_cast<A>(scale * sum);
    };
    CLEAVE_CHECK(lse.dtype == DType::f32 || lse.dtype == DType::f64, "a log-sum-exp in {}", name_of(lse.dtype));
    lse.dtype == DType::f64 ? sum_squares(double{}) : sum_squares(float{});
}

void CrossEntropyBackward::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 4, outputs, 1);
    const View& logits = inputs[1];
    const Shape rows = leading(logits.shape);
    const std::int64_t width = logits.shape.back();
    expect(inputs[0], Shape{}, accumulator_of(logits.dtype));
    expect_dense(logits);
    expect(inputs[2], rows, accumulator_of(logits.dtype));
    expect(inputs[3], rows, DType::i32);
    expect(outputs[0], logits.shape, logits.dtype);
    const std::int32_t* labels = inputs[3].as<std::int32_t>();
    dispatch_float(logits.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const A factor = *inputs[0].as<A>() * static_cast<A>(scale);
        const A slope = static_cast<A>(2 * z_loss);
        const T* x = logits.as<T>();
        const A* lse = inputs[2].as<A>();
        T* dx = outputs[0].as<T>();
        parallel_for(rows.elements(), row_grain(width), [=, this](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                T* out = dx + r * width;
                if (labels[r] == ignore) {
                    std::fill_n(out, width, T{});
                    continue;
                }
                expect_label(labels[r], width);
                const A weight = 1 + slope * lse[r];
                const A weighted = factor * weight;
                // Read before the row is overwritten, where both are one storage; 1 is subtracted before rounding.
                const A at_label = static_cast<A>(x[r * width + labels[r]]);
                for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
                    store(out + i, weighted * exp(load(x + r * width + i, count) - lse[r]), count);
                });
                out[labels[r]] = static_cast<T>(factor * (weight * exp(splat(at_label - lse[r]))[0] - 1));
            }
        });
    });
}

}  // namespace cleave::kernels

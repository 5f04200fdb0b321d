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

// The label's place in this piece's classes, or -1.
std::int64_t local_class(std::int32_t label, const View& logits) {
    const int last = logits.shape.rank() - 1;
    CLEAVE_CHECK(label >= 0 && label < logits.global[last], "label {} of {} classes", label, logits.global[last]);
    const std::int64_t place = label - logits.offset[last];
    return place >= 0 && place < logits.shape[last] ? place : -1;
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
            loss += static_cast<double>(lse[r] - static_cast<A>(x[r * width + local_class(labels[r], logits)]));
        }
        *outputs[0].as<A>() = static_cast<A>(scale * loss);
    });
}

Cost ClassStatistics::cost(Views inputs, Views outputs) const {
    return {16 * static_cast<double>(inputs[0].elements()),
            static_cast<double>(inputs[0].bytes() + inputs[1].bytes() + outputs[0].bytes())};
}

void ClassStatistics::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    const View& logits = inputs[0];
    const Shape rows = leading(logits.shape);
    const std::int64_t width = logits.shape.back();
    expect_dense(logits);
    expect(inputs[1], rows, DType::i32);
    Shape shape{1};
    for (std::int64_t extent : rows) shape.push_back(extent);
    shape.push_back(2);
    expect(outputs[0], shape, accumulator_of(logits.dtype));
    const std::int32_t* labels = inputs[1].as<std::int32_t>();
    dispatch_float(logits.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* x = logits.as<T>();
        A* statistics = outputs[0].as<A>();
        parallel_for(rows.elements(), row_grain(width), [&, this](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const std::int64_t label = labels[r] == ignore ? -1 : local_class(labels[r], logits);
                statistics[2 * r] = log_sum_exp(x + r * width, width);
                statistics[2 * r + 1] = label < 0 ? A{} : static_cast<A>(x[r * width + label]);
            }
        });
    });
}

void CrossEntropyOfPieces::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 2);
    const View& statistics = inputs[0];
    const Shape& rows = inputs[1].shape;
    expect_dense(statistics);
    expect(inputs[1], rows, DType::i32);
    CLEAVE_CHECK(statistics.shape.rank() == rows.rank() + 2 && statistics.shape.back() == 2 &&
                     statistics.elements() == 2 * statistics.shape[0] * rows.elements(),
                 "statistics {} of rows {}", to_string(statistics.shape), to_string(rows));
    expect(outputs[0], Shape{}, statistics.dtype);
    expect(outputs[1], rows, statistics.dtype);
    const std::int32_t* labels = inputs[1].as<std::int32_t>();
    const auto combine = [&]<class A>(A) {
        const std::int64_t pieces = statistics.shape[0];
        const std::int64_t count = rows.elements();
        const A* from = statistics.as<A>();
        A* lse = outputs[1].as<A>();
        double loss = 0;
        for (std::int64_t r = 0; r < count; ++r) {
            auto piece = [&](std::int64_t p) { return from + 2 * (p * count + r); };
            A top = -std::numeric_limits<A>::infinity();
            for (std::int64_t p = 0; p < pieces; ++p) top = std::max(top, piece(p)[0]);
            A sum = 0;
            A label = 0;
            for (std::int64_t p = 0; p < pieces; ++p) {
                sum += std::exp(piece(p)[0] - top);
                label += piece(p)[1];  // one piece has it, the others 0
            }
            lse[r] = top + std::log(sum);
            if (labels[r] != ignore) loss += static_cast<double>(lse[r] - label);
        }
        *outputs[0].as<A>() = static_cast<A>(scale * loss);
    };
    CLEAVE_CHECK(statistics.dtype == DType::f32 || statistics.dtype == DType::f64, "statistics in {}",
                 name_of(statistics.dtype));
    statistics.dtype == DType::f64 ? combine(double{}) : combine(float{});
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
                const std::int64_t label = local_class(labels[r], logits);
                const A weight = 1 + slope * lse[r];
                const A weighted = factor * weight;
                // Read before the row is overwritten, where both are one storage; 1 is subtracted before rounding.
                const A at_label = label < 0 ? A{} : static_cast<A>(x[r * width + label]);
                for_vectors<A>(0, width, [&](std::int64_t i, auto count) {
                    store(out + i, weighted * exp(load(x + r * width + i, count) - lse[r]), count);
                });
                if (label < 0) continue;
                out[label] = static_cast<T>(factor * (weight * exp(splat(at_label - lse[r]))[0] - 1));
            }
        });
    });
}

}  // namespace cleave::kernels

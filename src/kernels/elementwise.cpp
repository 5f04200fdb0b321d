#include "kernels/elementwise.h"

#include "base/random.h"
#include "kernels/each_vector.h"
#include "kernels/global_runs.h"

namespace cleave::kernels {

namespace {

constexpr std::int64_t kGrain = 16384;      // elements of cheap arithmetic that are worth a thread
constexpr std::int64_t kNormalGrain = 256;  // the same for normal numbers

template <class To, class From>
CLEAVE_INLINE To convert(From value) {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else if constexpr (std::is_same_v<From, bf16>)
        return static_cast<To>(static_cast<float>(value));
    else if constexpr (std::is_same_v<To, bf16>)
        return bf16(static_cast<float>(value));
    else
        return static_cast<To>(value);
}

// The innermost dims that are dense in every view, taken as one row; calls f(offset of the row in each view) for every
// row.
struct Rows {
    Rows(const View& a, const View& b) : shape(a.shape), strides{a.strides, b.strides} {
        while (outer > 0 && dense_at(outer - 1)) length *= shape[--outer];
    }
    bool dense_at(int d) const { return shape[d] == 1 || (strides[0][d] == length && strides[1][d] == length); }
    std::int64_t count() const { return shape.product(0, outer); }
    std::int64_t offset(int view, std::int64_t row) const {
        std::int64_t at = 0;
        for (int d = outer - 1; d >= 0; --d) {
            at += row % shape[d] * strides[view][d];
            row /= shape[d];
        }
        return at;
    }

    Shape shape;
    Shape strides[2];
    int outer = shape.rank();
    std::int64_t length = 1;
};

}  // namespace

void Add::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    each_vector<2, 1>(inputs, outputs, kGrain, [](auto& in, auto& out, std::int64_t i, auto count) {
        simd::store(out[0] + i, simd::load(in[0] + i, count) + simd::load(in[1] + i, count), count);
    });
}

Cost Accumulate::cost(Views inputs, Views outputs) const {
    Cost cost = elementwise_cost(inputs, outputs, 1);
    cost.bytes += static_cast<double>(outputs[0].bytes());  // y is read as well
    return cost;
}

void Accumulate::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    expect(inputs[0], outputs[0].shape, inputs[0].dtype);
    expect_dense(outputs[0]);
    dispatch_float(inputs[0].dtype, [&]<class From>(From) {
        dispatch_float(outputs[0].dtype, [&]<class To>(To) {
            const From* x = inputs[0].as<From>();
            To* y = outputs[0].as<To>();
            using A = accumulator_t<To>;
            parallel_for(outputs[0].elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) y[i] = convert<To>(convert<A>(y[i]) + convert<A>(x[i]));
            });
        });
    });
}

void Scale::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    each_vector<1, 1>(inputs, outputs, kGrain, [by = factor](auto& in, auto& out, std::int64_t i, auto count) {
        const auto x = simd::load(in[0] + i, count);
        simd::store(out[0] + i, x * static_cast<simd::Lane<decltype(x)>>(by), count);
    });
}

void Cast::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    expect_shape(inputs[0], outputs[0].shape);
    if (outputs[0].elements() == 0) return;
    const Rows rows(inputs[0], outputs[0]);
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / rows.length);
    dispatch_float(inputs[0].dtype, [&]<class From>(From) {
        dispatch_float(outputs[0].dtype, [&]<class To>(To) {
            const From* x = inputs[0].as<From>();
            To* y = outputs[0].as<To>();
            auto copy = [=](const From* from, To* to, std::int64_t n) {
                for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
            };
            if (rows.count() == 1)
                return parallel_for(rows.length, kGrain, [&](std::int64_t begin, std::int64_t end) {
                    copy(x + begin, y + begin, end - begin);
                });
            parallel_for(rows.count(), grain, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t r = begin; r < end; ++r)
                    copy(x + rows.offset(0, r), y + rows.offset(1, r), rows.length);
            });
        });
    });
}

const Signature& Fill::signature() const {
    static const Signature constant("~x[*] -> y[*]");
    static const Signature zero("x[*] -> y[*]");  // 0 x: a sum of zeros is zero, so P stays P
    return value == 0 ? zero : constant;
}

Cost Fill::cost(Views, Views outputs) const {
    return elementwise_cost({}, outputs, 0);
}

void Fill::run(Views, Views outputs, void*) const {
    expect_dense(outputs[0]);
    dispatch(outputs[0].dtype, [&]<class T>(T) {
        T* y = outputs[0].as<T>();
        const T with = convert<T>(value);
        parallel_for(outputs[0].elements(), kGrain,
                     [=](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, with); });
    });
}

Cost FillNormal::cost(Views, Views outputs) const {
    return elementwise_cost({}, outputs, 60);
}

void FillNormal::run(Views, Views outputs, void*) const {
    expect_dense(outputs[0]);
    const RandomStream random(seed, stream);
    const GlobalRuns runs(outputs[0]);
    dispatch_float(outputs[0].dtype, [&]<class T>(T) {
        T* y = outputs[0].as<T>();
        parallel_for(outputs[0].elements(), kNormalGrain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t index = runs.global_begin(i / runs.length) + i % runs.length;
                y[i] = convert<T>(mean + standard_deviation * random.normal(static_cast<std::uint64_t>(index)));
            }
        });
    });
}

}  // namespace cleave::kernels

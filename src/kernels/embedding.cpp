#include "kernels/embedding.h"

#include "base/mutation.h"
#include "kernels/operands.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kGrainElements = 8192;  // elements that are worth a thread
constexpr std::int64_t kColumnGrain = 32;

std::int64_t row_grain(std::int64_t width) {
    return std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, width));
}

// Row of the local table that holds the token, or -1.
std::int64_t local_row(std::int32_t token, const View& table) {
    CLEAVE_CHECK(token >= 0 && token < table.global[0], "token {} of a vocabulary of {}", token, table.global[0]);
    const std::int64_t row = token - table.offset[0];
    if (mutated(Mutation::vocabulary_not_masked)) return token % table.shape[0];
    return row >= 0 && row < table.shape[0] ? row : -1;
}

// The range of rows of a position table that x[b t c] uses.
void expect_positions(const View& x, const View& table, std::int64_t position0) {
    CLEAVE_CHECK(x.shape.rank() == 3 && table.shape.rank() == 2 && table.shape[1] == x.shape[2] &&
                     table.shape[0] == table.global[0] && position0 >= 0 && position0 + x.global[1] <= table.shape[0],
                 "positions {} for a tensor {} from position {}", to_string(table.shape), to_string(x.global),
                 position0);
}

}  // namespace

Cost Embedding::cost(Views inputs, Views outputs) const {
    // Only the rows that are named are read.
    return {0, static_cast<double>(inputs[0].bytes() + 2 * outputs[0].bytes())};
}

void Embedding::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    const View& table = inputs[1];
    const View& y = outputs[0];
    const std::int64_t width = table.shape[1];
    expect(inputs[0], leading(y.shape), DType::i32);
    expect(table, Shape{table.shape[0], y.shape.back()}, y.dtype);
    expect_dense(y);
    const std::int32_t* tokens = inputs[0].as<std::int32_t>();
    dispatch_float(y.dtype, [&]<class T>(T) {
        const T* from = table.as<T>();
        T* to = y.as<T>();
        parallel_for(inputs[0].elements(), row_grain(width), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const std::int64_t row = local_row(tokens[r], table);
                if (row < 0)
                    std::fill_n(to + r * width, width, T{});
                else
                    std::copy_n(from + row * width, width, to + r * width);
            }
        });
    });
}

Cost EmbeddingBackward::cost(Views inputs, Views) const {
    const double elements = static_cast<double>(inputs[1].elements());
    const double table =
        2 * elements * static_cast<double>(size_of(accumulator_of(inputs[1].dtype)));  // read and written
    return {elements, static_cast<double>(inputs[0].bytes() + inputs[1].bytes()) + table};
}

void EmbeddingBackward::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    const View& dy = inputs[1];
    const View& dtable = outputs[0];
    const std::int64_t width = dtable.shape[1];
    expect(inputs[0], leading(dy.shape), DType::i32);
    expect_dense(dy);
    expect(dtable, Shape{dtable.shape[0], dy.shape.back()}, accumulator_of(dy.dtype));
    const std::int32_t* tokens = inputs[0].as<std::int32_t>();
    const std::int64_t rows = inputs[0].elements();
    const std::int64_t grain = rows * width < kGrainElements ? std::max<std::int64_t>(1, width) : kColumnGrain;
    dispatch_float(dy.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* from = dy.as<T>();
        A* to = dtable.as<A>();
        // A thread owns columns: two rows of dy with one token never meet.
        parallel_for(width, grain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = 0; r < rows; ++r) {
                const std::int64_t row = local_row(tokens[r], dtable);
                if (row < 0) continue;
                for_vectors<A>(begin, end, [&](std::int64_t c, auto count) {
                    A* sum = to + row * width + c;
                    store(sum, load(sum, count) + load(from + r * width + c, count), count);
                });
            }
        });
    });
}

Cost AddPositions::cost(Views inputs, Views outputs) const {
    const double table_rows = static_cast<double>(inputs[0].shape[1] * inputs[0].shape[2] * size_of(inputs[1].dtype));
    return {static_cast<double>(outputs[0].elements()), static_cast<double>(2 * outputs[0].bytes()) + table_rows};
}

void AddPositions::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    const View& x = inputs[0];
    const View& table = inputs[1];
    expect(x, x.shape, x.dtype);
    expect(outputs[0], x.shape, x.dtype);
    expect(table, table.shape, x.dtype);
    expect_positions(x, table, position0);
    const std::int64_t steps = x.shape[1];
    const std::int64_t width = x.shape[2];
    dispatch_float(x.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* in = x.as<T>();
        const T* positions = table.as<T>() + (position0 + x.offset[1]) * width;
        T* out = outputs[0].as<T>();
        parallel_for(x.shape[0] * steps, row_grain(width), [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r)
                for_vectors<A>(0, width, [&](std::int64_t c, auto count) {
                    const std::int64_t i = r * width + c;
                    store(out + i, load(in + i, count) + load(positions + r % steps * width + c, count), count);
                });
        });
    });
}

Cost AddPositionsBackward::cost(Views inputs, Views) const {
    const double rows = static_cast<double>(inputs[0].shape[1] * inputs[0].shape[2]);
    const double table = 2 * rows * static_cast<double>(size_of(accumulator_of(inputs[0].dtype)));  // read and written
    return {static_cast<double>(inputs[0].elements()), static_cast<double>(inputs[0].bytes()) + table};
}

void AddPositionsBackward::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    const View& dy = inputs[0];
    const View& dtable = outputs[0];
    expect_dense(dy);
    expect(dtable, dtable.shape, accumulator_of(dy.dtype));
    expect_positions(dy, dtable, position0);
    const std::int64_t steps = dy.shape[1];
    const std::int64_t width = dy.shape[2];
    dispatch_float(dy.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* in = dy.as<T>();
        A* sums = dtable.as<A>() + (position0 + dy.offset[1]) * width;
        // A thread owns positions; the batch is added in ascending order.
        const std::int64_t grain = row_grain(width * dy.shape[0]);
        parallel_for(steps, grain, [=, batch = dy.shape[0]](std::int64_t begin, std::int64_t end) {
            for (std::int64_t t = begin; t < end; ++t)
                for_vectors<A>(0, width, [&](std::int64_t c, auto count) {
                    Vec<A> sum = load(sums + t * width + c, count);
                    for (std::int64_t b = 0; b < batch; ++b) sum += load(in + (b * steps + t) * width + c, count);
                    store(sums + t * width + c, sum, count);
                });
        });
    });
}

void DocumentPositions::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    const View& first = inputs[0];
    CLEAVE_CHECK(first.shape.rank() == 2, "documents of a tensor {}", to_string(first.shape));
    expect(first, first.shape, DType::i32);
    expect(outputs[0], first.shape, DType::i32);
    const auto* from = first.as<std::int32_t>();
    auto* to = outputs[0].as<std::int32_t>();
    const std::int64_t steps = first.shape[1];
    for (std::int64_t i = 0; i < first.elements(); ++i) {
        const auto t = static_cast<std::int32_t>(first.offset[1] + i % steps);
        CLEAVE_CHECK(from[i] >= 0 && from[i] <= t, "the document of token {} begins at {}", t, from[i]);
        to[i] = t - from[i];
    }
}

}  // namespace cleave::kernels

#include "kernels/dropout.h"

#include <cmath>

#include "kernels/global_runs.h"
#include "kernels/operands.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

constexpr std::int64_t kBlock = RandomStream::kBlockWords;
constexpr std::int64_t kGrain = 64 * kBlock;  // elements that are worth a thread

// Calls f(element, count, words) for pieces of the tensor: `words` are the random words of `count` elements from
// `element` on, which have consecutive global indices.
template <class F>
void each_block(const View& view, const RandomStream& stream, std::int64_t row_shift, F&& f) {
    View placed = view;
    if (placed.shape.rank() > 0) placed.offset[0] += row_shift;
    const GlobalRuns runs(placed);
    parallel_for(view.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::array<std::uint32_t, kBlock> words;
        while (begin < end) {
            const std::int64_t within = begin % runs.length;
            const std::int64_t global = runs.global_begin(begin / runs.length) + within;
            const std::int64_t skip = global % kBlock;
            const std::int64_t count = std::min({end - begin, runs.length - within, kBlock - skip});
            stream.block(static_cast<std::uint64_t>(global / kBlock), words);
            f(begin, count, words.data() + skip);
            begin += count;
        }
    });
}

std::uint64_t threshold_of(double probability) {
    return static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
}

}  // namespace

void Dropout::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    expect_dense(inputs[0]);
    expect(outputs[0], inputs[0].shape, inputs[0].dtype);
    const std::uint64_t threshold = threshold_of(probability);
    dispatch_float(inputs[0].dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* x = inputs[0].as<T>();
        T* y = outputs[0].as<T>();
        const A scale = static_cast<A>(1 / (1 - probability));
        each_block(inputs[0], stream, row_shift, [=](std::int64_t at, std::int64_t count, const std::uint32_t* words) {
            for (std::int64_t i = 0; i < count; ++i)
                y[at + i] = words[i] < threshold ? T{} : static_cast<T>(scale * static_cast<A>(x[at + i]));
        });
    });
}

Cost DropoutMask::cost(Views, Views outputs) const {
    return elementwise_cost({}, outputs, 1);
}

void DropoutMask::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 1, outputs, 1);
    expect(outputs[0], inputs[0].shape, DType::u8);
    const std::uint64_t threshold = threshold_of(probability);
    auto* mask = outputs[0].as<std::uint8_t>();
    each_block(inputs[0], stream, row_shift, [=](std::int64_t at, std::int64_t count, const std::uint32_t* words) {
        for (std::int64_t i = 0; i < count; ++i) mask[at + i] = words[i] < threshold ? 0 : 1;
    });
}

void ApplyMask::run(Views inputs, Views outputs, void*) const {
    expect_count(*this, inputs, 2, outputs, 1);
    expect_dense(inputs[0]);
    expect(inputs[1], inputs[0].shape, DType::u8);
    expect(outputs[0], inputs[0].shape, inputs[0].dtype);
    const auto* mask = inputs[1].as<std::uint8_t>();
    dispatch_float(inputs[0].dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        const T* x = inputs[0].as<T>();
        T* y = outputs[0].as<T>();
        const A factor = static_cast<A>(scale);
        parallel_for(inputs[0].elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                y[i] = mask[i] == 0 ? T{} : static_cast<T>(factor * static_cast<A>(x[i]));
        });
    });
}

}  // namespace cleave::kernels

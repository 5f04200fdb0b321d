// The loop of every element-by-element kernel: one dtype, one shape, dense; vectors of the accumulator's type.
// Thread rule: uses the calling rank's team.
#pragma once

#include <array>

#include "kernels/operands.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::kernels {

// Calls f(in, out, index, count) for every vector; `in` and `out` are arrays of pointers to the operands' elements of
// type T. `grain`: elements that are worth a thread.
template <int Inputs, int Outputs, class F>
void each_vector(Views inputs, Views outputs, std::int64_t grain, F&& f) {
    const View& model = outputs[0];
    for (const View& view : inputs) expect(view, model.shape, model.dtype);
    for (const View& view : outputs) expect(view, model.shape, model.dtype);
    dispatch_float(model.dtype, [&]<class T>(T) {
        std::array<const T*, Inputs> in;
        std::array<T*, Outputs> out;
        for (std::size_t i = 0; i < Inputs; ++i) in[i] = inputs[i].as<T>();
        for (std::size_t i = 0; i < Outputs; ++i) out[i] = outputs[i].as<T>();
        parallel_for(model.elements(), grain, [&f, in, out](std::int64_t begin, std::int64_t end) {
            simd::for_vectors<accumulator_t<T>>(begin, end, [&](std::int64_t i, auto count) { f(in, out, i, count); });
        });
    });
}

}  // namespace cleave::kernels

// What kernels check of their operands before they touch them. A failed check is a bug of the caller.
// Thread rule: pure functions.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

inline void expect_count(const Kernel& kernel, Views inputs, int input_count, Views outputs, int output_count) {
    CLEAVE_CHECK(static_cast<int>(inputs.size()) == input_count && static_cast<int>(outputs.size()) == output_count,
                 "{} takes {} inputs and {} outputs, not {} and {}", kernel.name(), input_count, output_count,
                 inputs.size(), outputs.size());
}

inline void expect_shape(const View& view, const Shape& shape) {
    CLEAVE_CHECK(view.shape == shape, "a view of {} where {} is needed", to_string(view.shape), to_string(shape));
}

inline void expect_dense(const View& view) {
    CLEAVE_CHECK(view.dense(), "a view of {} with strides {} is not dense", to_string(view.shape),
                 to_string(view.strides));
}

// Dense, of that shape and dtype.
inline void expect(const View& view, const Shape& shape, DType dtype) {
    expect_shape(view, shape);
    expect_dense(view);
    CLEAVE_CHECK(view.dtype == dtype, "a view of {} where {} is needed", name_of(view.dtype), name_of(dtype));
}

// The dtype in which sums over `dtype` are taken.
constexpr DType accumulator_of(DType dtype) {
    return dtype == DType::bf16 ? DType::f32 : dtype;
}

// The shape without its last dim, and the number of elements of that.
inline Shape leading(const Shape& shape) {
    return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.rank() - 1)));
}

}  // namespace cleave::kernels

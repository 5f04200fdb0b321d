#include "kernels/view.h"

namespace cleave::kernels {

Shape dense_strides(const Shape& shape) {
    Shape strides = Shape::filled(shape.rank(), 1);
    for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
    return strides;
}

View whole_view(void* data, DType dtype, const Shape& shape) {
    return {data, dtype, shape, shape, Shape::filled(shape.rank(), 0), dense_strides(shape)};
}

}  // namespace cleave::kernels

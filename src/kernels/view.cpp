#include "kernels/view.h"

namespace cleave::kernels {

Shape dense_strides(const Shape& shape) {
    Shape strides = Shape::filled(shape.rank(), 1);
    for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
    return strides;
}

View merged(const View& view, int dim) {
    CLEAVE_CHECK(view.shape[dim] <= 1 || view.strides[dim] == view.shape[dim + 1] * view.strides[dim + 1],
                 "dims {} and {} of {} with strides {} as one", dim, dim + 1, to_string(view.shape),
                 to_string(view.strides));
    View result{view.data, view.dtype, {}, {}, {}, {}};
    for (int d = 0; d < view.shape.rank(); ++d) {
        const bool first = d == dim;
        const int from = first ? ++d : d;
        result.shape.push_back(first ? view.shape[from - 1] * view.shape[from] : view.shape[from]);
        result.global.push_back(first ? view.global[from - 1] * view.global[from] : view.global[from]);
        result.offset.push_back(first ? 0 : view.offset[from]);
        result.strides.push_back(view.strides[from]);
    }
    return result;
}

View whole_view(void* data, DType dtype, const Shape& shape) {
    return {data, dtype, shape, shape, Shape::filled(shape.rank(), 0), dense_strides(shape)};
}

}  // namespace cleave::kernels

// What a kernel sees of a tensor: this rank's piece, and where it lies in the whole.
// Thread rule: a view borrows its storage; kernels never allocate.
#pragma once

#include "base/dtype.h"
#include "base/shape.h"

namespace cleave::kernels {

struct View {
    void* data = nullptr;  // not to be followed on the virtual engine
    DType dtype = DType::f32;
    Shape shape;    // local
    Shape global;   // the whole tensor's
    Shape offset;   // of this piece in it, per dim
    Shape strides;  // in elements; row-major and dense unless the kernel says that it accepts others

    template <class T>
    T* as() const {
        CLEAVE_CHECK(dtype == dtype_of<T>(), "a view of {} used as {}", name_of(dtype), name_of(dtype_of<T>()));
        return static_cast<T*>(data);
    }
    std::int64_t elements() const { return shape.elements(); }
    std::int64_t bytes() const { return elements() * size_of(dtype); }
    bool dense() const {
        std::int64_t expected = 1;
        for (int d = shape.rank() - 1; d >= 0; --d) {
            if (shape[d] != 1 && strides[d] != expected) return false;
            expected *= shape[d];
        }
        return true;
    }
};

// The dense view of a whole tensor (global = local), for tests and single-rank use.
View whole_view(void* data, DType dtype, const Shape& shape);
// Dims `dim` and `dim + 1` as one, where the local ones lie one behind the other. Of the one, `global` and `offset` say
// nothing: the piece may be cut along both.
View merged(const View& view, int dim);
// Row-major strides.
Shape dense_strides(const Shape& shape);

}  // namespace cleave::kernels

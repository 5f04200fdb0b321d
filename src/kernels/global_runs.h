// Which global indices a piece holds: row-major runs that are contiguous both in the piece and in the whole tensor.
// Thread rule: pure functions.
#pragma once

#include "kernels/view.h"

namespace cleave::kernels {

struct GlobalRuns {
    explicit GlobalRuns(const View& view) {
        // Dims after the last one that is cut are whole: they and that one make a run.
        int first = view.shape.rank();
        while (first > 0 && (first == view.shape.rank() || view.shape[first] == view.global[first])) --first;
        length = view.shape.product(first, view.shape.rank());
        outer_rank_ = first;
        count = view.shape.product(0, first);
        strides_ = Shape::filled(view.shape.rank(), 1);
        for (int d = view.shape.rank() - 2; d >= 0; --d) strides_[d] = strides_[d + 1] * view.global[d + 1];
        for (int d = 0; d < view.shape.rank(); ++d) origin_ += view.offset[d] * strides_[d];
        shape_ = view.shape;
    }

    std::int64_t count;   // of runs
    std::int64_t length;  // of each, in elements; run r begins at element r * length of the piece

    // The global index at which run r begins.
    std::int64_t global_begin(std::int64_t r) const {
        std::int64_t index = origin_;
        for (int d = outer_rank_ - 1; d >= 0; --d) {
            index += r % shape_[d] * strides_[d];
            r /= shape_[d];
        }
        return index;
    }

  private:
    Shape shape_;
    Shape strides_;  // of the whole tensor
    int outer_rank_ = 0;
    std::int64_t origin_ = 0;
};

}  // namespace cleave::kernels

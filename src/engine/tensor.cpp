#include "engine/tensor.h"

#include "engine/engine.h"

namespace cleave {

Storage::~Storage() {
    engine_.release(data_, bytes_, kind_);
}

Tensor::Tensor(std::string name, const Shape& shape, const Layout& layout, kernels::View view,
               std::shared_ptr<Storage> storage) {
    thread_local std::uint64_t next_id = 0;
    view.global = shape;
    body_ = std::make_shared<const Body>(Body{next_id++, std::move(name), layout, view, std::move(storage)});
}

Tensor Tensor::relabelled(const Layout& layout) const {
    return {body_->name, shape(), layout, body_->view, body_->storage};
}

Tensor Tensor::select(int dim, std::int64_t index) const {
    const kernels::View& whole = body_->view;
    CLEAVE_CHECK(whole.shape[dim] == whole.global[dim], "select along a cut dim of {}", name());
    CLEAVE_CHECK(index >= 0 && index < whole.shape[dim]);
    kernels::View view;
    view.dtype = whole.dtype;
    Shape global;
    for (int d = 0; d < whole.shape.rank(); ++d) {
        if (d == dim) continue;
        view.shape.push_back(whole.shape[d]);
        view.offset.push_back(whole.offset[d]);
        view.strides.push_back(whole.strides[d]);
        global.push_back(whole.global[d]);
    }
    if (whole.data != nullptr)
        view.data = static_cast<std::byte*>(whole.data) + index * whole.strides[dim] * size_of(whole.dtype);
    Layout layout;
    for (const auto& [axis, placement] : body_->layout) {
        Placement moved = placement;
        if (placement.is(Placement::Kind::S) && placement.dim > dim) moved = S(placement.dim - 1, placement.unit);
        layout = layout.with(axis, moved);
    }
    return {body_->name, global, layout, view, body_->storage};
}

Tensor Tensor::narrow(int dim, std::int64_t begin, std::int64_t count) const {
    kernels::View view = body_->view;
    CLEAVE_CHECK(view.shape[dim] == view.global[dim], "a part of the cut dim of {}", name());
    CLEAVE_CHECK(begin >= 0 && count >= 0 && begin + count <= view.shape[dim], "[{}, {}) of {}", begin, begin + count,
                 to_string(view.shape));
    if (view.data != nullptr)
        view.data = static_cast<std::byte*>(view.data) + begin * view.strides[dim] * size_of(view.dtype);
    Shape global = shape();
    view.shape[dim] = count;
    global[dim] = count;
    return {body_->name, global, body_->layout, view, body_->storage};
}

}  // namespace cleave

#include "engine/chunked_transition.h"

#include <algorithm>
#include <utility>

namespace cleave {

namespace {

bool cuts_rows(const Layout& layout, AxisId axis) {
    const Placement placement = layout.at(axis);
    return placement.is(Placement::Kind::S) && placement.dim == 0;
}

bool keeps_rows(const Layout& from, const Layout& to, const Mesh& mesh) {
    for (AxisId axis = 0; axis < mesh.axis_count(); ++axis)
        if (cuts_rows(from, axis) != cuts_rows(to, axis)) return false;
    return true;
}

}  // namespace

ChunkedTransition::ChunkedTransition(Engine& engine, const Tensor& from, const Layout& to, int most)
    : engine_(engine), from_(from), to_(to), row_count_(from.local_shape()[0]) {
    const Action action = engine.action_to(from, to);
    const bool divisible = communicates(action) && keeps_rows(from.layout(), to, engine.mesh());
    const std::int64_t count = divisible ? std::min<std::int64_t>(most, row_count_) : 1;
    pending_.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, count)));
    if (action == Action::all_reduce)
        result_ = from.relabelled(to);
    else if (pending_.size() > 1)
        result_ = engine.alloc(from.name(), from.shape(), to, from.dtype(), from.kind());
}

void ChunkedTransition::start(int chunk) {
    auto& pending = pending_[static_cast<std::size_t>(chunk)];
    if (count() > 1)
        pending = engine_.start_transition_into(engine_.local_rows(from_, rows(chunk)),
                                                engine_.local_rows(result_, rows(chunk)));
    else
        pending = result_ ? engine_.start_transition_into(from_, result_) : engine_.start_transition(from_, to_);
    if (chunk + 1 == count()) from_ = {};
}

void ChunkedTransition::finish(int chunk) {
    auto pending = std::exchange(pending_[static_cast<std::size_t>(chunk)], nullptr);
    if (!pending) return;
    const Tensor finished = engine_.finish(pending);
    if (count() == 1) result_ = finished;
}

Tensor ChunkedTransition::start_all() {
    for (int i = 0; i < count(); ++i) start(i);
    if (count() == 1) finish(0);
    return result_;
}

Tensor ChunkedTransition::finish_all() {
    for (int i = 0; i < count(); ++i) finish(i);
    return result_;
}

}  // namespace cleave

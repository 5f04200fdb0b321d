#include "parallel/data_parallel.h"

#include <algorithm>

#include "engine/functions.h"
#include "kernels/elementwise.h"

namespace cleave {

ModelLayouts data_parallel_layouts(const Mesh& mesh) {
    const AxisId dp = mesh.axis("dp");
    return {.tokens = {{dp, S(0)}}, .activations = {{dp, S(0)}}, .parameters = {{dp, R}}};
}

namespace {

constexpr std::int64_t kPadding = 64 / 4;  // elements: gradients start at cache lines

std::int64_t padded(std::int64_t elements) {
    return (elements + kPadding - 1) / kPadding * kPadding;
}

}  // namespace

GradientBuckets::GradientBuckets(Engine& engine, std::span<Parameter* const> parameters, std::int64_t bucket_bytes)
    : engine_(engine) {
    std::vector<Parameter*> order(parameters.rbegin(), parameters.rend());
    for (std::size_t begin = 0; begin < order.size();) {
        const DType dtype = accumulator_of(order[begin]->value.dtype());
        const Layout layout = order[begin]->layout.dual();
        std::int64_t elements = 0;
        std::size_t end = begin;
        while (end < order.size() && order[end]->layout.dual() == layout) {
            const std::int64_t next = padded(order[end]->shape.elements());
            if (end > begin && (elements + next) * size_of(dtype) > bucket_bytes) break;
            elements += next;
            ++end;
        }
        Bucket bucket;
        bucket.flat = engine.alloc(fmt::format("gradient bucket {}", buckets_.size()), {elements}, layout, dtype,
                                   MemoryKind::gradients);
        bucket.parameters = static_cast<int>(end - begin);
        std::int64_t offset = 0;
        for (std::size_t i = begin; i < end; ++i) {
            Parameter& parameter = *order[i];
            parameter.gradient =
                engine.slice_of(bucket.flat, offset, parameter.name + " gradient", parameter.shape, layout);
            reduced_.emplace(&parameter, parameter.gradient.relabelled(summed(layout)));
            bucket_of_.emplace(&parameter, buckets_.size());
            offset += padded(parameter.shape.elements());
        }
        buckets_.push_back(std::move(bucket));
        begin = end;
    }
}

void GradientBuckets::zero() {
    for (Bucket& bucket : buckets_) {
        engine_.launch(kernels::Fill{0.0}, {bucket.flat}, {bucket.flat});
        bucket.missing = bucket.parameters;
    }
}

void GradientBuckets::issue(Bucket& bucket) {
    bucket.pending = engine_.start_transition_in_place(bucket.flat, summed(bucket.flat.layout()));
}

Tape::GradientReady GradientBuckets::on_ready() {
    return [this](Parameter& parameter) {
        Bucket& bucket = buckets_[bucket_of_.at(&parameter)];
        CLEAVE_CHECK(bucket.missing > 0, "the gradient of {} was ready twice", parameter.name);
        if (--bucket.missing == 0) issue(bucket);
    };
}

void GradientBuckets::finish() {
    for (Bucket& bucket : buckets_)
        if (!bucket.pending) issue(bucket);
    for (Bucket& bucket : buckets_) {
        engine_.finish(bucket.pending);
        bucket.pending.reset();
    }
}

}  // namespace cleave

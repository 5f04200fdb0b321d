#include "parallel/parameter_buckets.h"

#include <algorithm>

#include "engine/functions.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "parallel/data_parallel.h"
#include "parallel/pipeline.h"

namespace cleave {

using Kind = Placement::Kind;

Shape Bucket::shape() const {
    return {blocks, kernels::kNormBlock};
}

namespace {

// Of the parameters' placements: which dim is cut does not matter to flat memory.
Layout without_dims(const Layout& layout) {
    Layout result;
    for (const auto& [axis, placement] : layout) result.set(axis, placement.is(Kind::S) ? S(0) : placement);
    return result;
}

// Elements of the largest piece.
std::int64_t largest_piece(const Parameter& parameter, const Mesh& mesh) {
    Shape shape = parameter.shape;
    for (const auto& [axis, placement] : parameter.layout) {
        if (!placement.is(Kind::S)) continue;
        std::int64_t& extent = shape[placement.dim];
        const std::int64_t units = extent / placement.unit;
        const std::int64_t ranks = mesh.size(axis);
        extent = (units + ranks - 1) / ranks * placement.unit;
    }
    return shape.elements();
}

}  // namespace

ParameterBuckets::ParameterBuckets(Engine& engine, std::span<Parameter* const> all, const ZeroOptions& options,
                                   DType compute)
    : engine_(engine),
      all_(all.begin(), all.end()),
      stage_of_pipeline_(stage_of_pipeline(engine.mesh(), engine.rank())),
      compute_(compute),
      options_(options),
      stage_(engine.mesh().joint_size(zero_axes(engine.mesh())) == 1 ? 0 : options.stage) {
    make_buckets();
}

ParameterBuckets::ParameterBuckets(const ParameterBuckets& of, int stage_of_pipeline)
    : engine_(of.engine_),
      all_(of.all_),
      stage_of_pipeline_(stage_of_pipeline),
      compute_(of.compute_),
      options_(of.options_),
      stage_(of.stage_) {
    make_buckets();
}

std::optional<int> ParameterBuckets::other_owner(const Bucket& bucket) const {
    const std::vector<int>& owners = bucket.owners();
    if (owners.size() == 1) return std::nullopt;
    CLEAVE_CHECK(owners.size() == 2, "{} stages own {}", owners.size(), bucket.slots.front().parameter->name);
    return owners[owners[0] == stage_of_pipeline_ ? 1 : 0];
}

std::int64_t ParameterBuckets::blocks_of(const Parameter& parameter) const {
    return (largest_piece(parameter, engine_.mesh()) + kernels::kNormBlock - 1) / kernels::kNormBlock;
}

Bucket ParameterBuckets::new_bucket(const Parameter& parameter) const {
    Bucket bucket;
    bucket.decays = parameter.decays;
    if (cuts_values()) {
        bucket.group = parameter.group;
        bucket.second_group = parameter.second_group;
    }
    for (const auto& [axis, placement] : parameter.layout)
        if (placement.is(Kind::S))
            bucket.cut_axes.push_back(axis);
        else
            bucket.whole.set(axis, placement);
    for (const AxisId axis : batch_axes(engine_.mesh()))
        CLEAVE_CHECK(bucket.whole.at(axis) == R, "{} is {} along the batch", parameter.name,
                     to_string(bucket.whole.at(axis)));
    bucket.shard = bucket.whole;
    for (const AxisId axis : zero_axes(engine_.mesh())) bucket.shard.set(axis, S(0));
    return bucket;
}

void ParameterBuckets::make_buckets() {
    const std::int64_t block_bytes = kernels::kNormBlock * size_of(accumulator_of(compute_));
    for (std::size_t i = 0; i < all_.size(); ++i) {
        Parameter* parameter = all_[i];
        parameter->index = static_cast<int>(i);
        const auto& owners = parameter->owners;
        if (std::find(owners.begin(), owners.end(), stage_of_pipeline_) == owners.end()) continue;
        parameters_.push_back(parameter);
        last_group_ = std::max({last_group_, parameter->group, parameter->second_group});
    }
    struct Open {
        Bucket bucket;
        Layout placements;
    };
    std::vector<Open> open;  // one for each class
    const auto close = [&](std::vector<Open>::iterator at) {
        buckets_.push_back(std::move(at->bucket));
        open.erase(at);
    };
    // Backward completes gradients in the reverse of the order of use.
    for (auto next = parameters_.rbegin(); next != parameters_.rend(); ++next) {
        Parameter& parameter = **next;
        const Layout placements = without_dims(parameter.layout);
        Bucket fresh = new_bucket(parameter);
        const std::int64_t blocks = blocks_of(parameter);
        const auto same_class = [&](const Open& other) {
            const Parameter& first = *other.bucket.slots.front().parameter;
            return other.placements == placements && other.bucket.decays == fresh.decays &&
                   first.virtual_stages == parameter.virtual_stages && first.owners == parameter.owners &&
                   other.bucket.group == fresh.group && other.bucket.second_group == fresh.second_group;
        };
        auto found = std::find_if(open.begin(), open.end(), same_class);
        const bool full = !cuts_values() && found != open.end() &&
                          (found->bucket.blocks + blocks) * block_bytes > options_.bucket_bytes;
        if (full) {
            close(found);
            found = open.end();
        }
        if (found == open.end()) found = open.insert(open.end(), {std::move(fresh), placements});
        found->bucket.slots.push_back({&parameter, found->bucket.blocks, blocks});
        found->bucket.blocks += blocks;
    }
    while (!open.empty()) close(open.begin());
    const auto completed_by = [&](const Bucket& bucket) {
        return std::find(parameters_.rbegin(), parameters_.rend(), bucket.slots.back().parameter);
    };
    std::sort(buckets_.begin(), buckets_.end(),
              [&](const Bucket& a, const Bucket& b) { return completed_by(a) < completed_by(b); });
    const std::int64_t ranks = cuts_optimizer() ? engine_.mesh().joint_size(zero_axes(engine_.mesh())) : 1;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        buckets_[i].blocks = std::max(buckets_[i].blocks, ranks);
        for (const Bucket::Slot& slot : buckets_[i].slots) bucket_of_.emplace(slot.parameter, i);
    }
}

const Bucket::Slot& ParameterBuckets::slot_of(const Parameter& parameter) const {
    const auto& slots = buckets_[bucket_of(parameter)].slots;
    return *std::find_if(slots.begin(), slots.end(),
                         [&](const Bucket::Slot& slot) { return slot.parameter == &parameter; });
}

Tensor ParameterBuckets::alloc(std::size_t bucket, std::string_view name, const Layout& layout, DType dtype,
                               MemoryKind kind) const {
    Tensor flat = engine_.alloc(fmt::format("{} {}", name, bucket), buckets_[bucket].shape(), layout, dtype, kind);
    engine_.launch(kernels::Fill{0.0}, {flat}, {flat});
    return flat;
}

Tensor ParameterBuckets::view(const Tensor& flat, const Parameter& parameter, const Layout& layout,
                              std::string_view name) const {
    CLEAVE_CHECK(flat.local_shape() == flat.shape(), "{} is cut", flat.name());
    return engine_.slice_of(flat, slot_of(parameter).first_block * kernels::kNormBlock, name, parameter.shape, layout);
}

void ParameterBuckets::fill(const Flats& flats, const Fill& f) const {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        const Tensor& flat = flats[i];
        const bool cut = flat.layout() != buckets_[i].whole;
        const Tensor whole = cut ? alloc(i, "whole bucket", buckets_[i].whole, flat.dtype(), flat.kind()) : flat;
        for (const Bucket::Slot& slot : buckets_[i].slots) f(*slot.parameter, view(whole, *slot.parameter));
        if (cut) engine_.finish(engine_.start_transition_into(whole, flat));
    }
}

namespace {

// Gathers along the axes that cut it, the innermost cut first: the piece that is left is contiguous in its dim.
Tensor gathered(Engine& engine, Tensor tensor) {
    for (;;) {
        const Layout::Entry* innermost = nullptr;
        for (const auto& entry : tensor.layout())
            if (entry.placement.is(Kind::S)) innermost = &entry;
        if (innermost == nullptr) return tensor;
        const Layout to = tensor.layout().with(innermost->axis, R);
        tensor = engine.transition(tensor, to);
    }
}

}  // namespace

void ParameterBuckets::visit(const Flats& flats, const Visit& f) const {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        if (!owns_first(buckets_[i])) continue;
        const Tensor whole = engine_.transition(flats[i], buckets_[i].whole);
        for (const Bucket::Slot& slot : buckets_[i].slots) {
            const Tensor value = gathered(engine_, view(whole, *slot.parameter));
            if (stage_of_pipeline_ == 0)
                f(*slot.parameter, value);
            else
                send_to_first_stage(*slot.parameter, value);
        }
    }
    if (stage_of_pipeline_ == 0) visit_other_stages(flats, f);
}

void ParameterBuckets::send_to_first_stage(const Parameter& parameter, const Tensor& whole) const {
    engine_.finish(engine_.start_send(whole, {pipeline_axis(engine_.mesh()), 0, parameter.index}));
}

// In the order in which they send.
void ParameterBuckets::visit_other_stages(const Flats& flats, const Visit& f) const {
    for (int stage = 1; stage < pipeline_stages(engine_.mesh()); ++stage) {
        const ParameterBuckets theirs(*this, stage);
        for (const Bucket& bucket : theirs.buckets_) {
            if (!theirs.owns_first(bucket)) continue;
            for (const Bucket::Slot& slot : bucket.slots) {
                const Parameter& parameter = *slot.parameter;
                Layout layout;
                for (const auto& [axis, placement] : parameter.layout)
                    layout.set(axis, placement.is(Kind::S) ? R : placement);
                const Tensor whole =
                    engine_.alloc(parameter.name, parameter.shape, layout, flats.front().dtype(), flats.front().kind());
                f(parameter, engine_.finish(engine_.start_receive(
                                 whole, {pipeline_axis(engine_.mesh()), stage, parameter.index})));
            }
        }
    }
}

}  // namespace cleave

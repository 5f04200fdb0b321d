#include "parallel/parameter_store.h"

#include "kernels/elementwise.h"

namespace cleave {

ParameterStore::ParameterStore(Engine& engine, std::span<Parameter* const> parameters, DType compute,
                               const ZeroOptions& options)
    : buckets_(engine, parameters, options, compute), compute_(compute) {
    for (std::size_t i = 0; i < buckets_.count(); ++i) {
        const Bucket& bucket = buckets_.all()[i];
        const Layout& values = buckets_.cuts_values() ? bucket.shard : bucket.whole;
        const Layout& own = buckets_.cuts_optimizer() ? bucket.shard : bucket.whole;
        values_.push_back(buckets_.alloc(i, "parameter bucket", values, compute, MemoryKind::parameters));
        own_values_.push_back(values == own ? values_[i] : engine.piece_of(values_[i], own));
        masters_.push_back(has_working_copies()
                               ? buckets_.alloc(i, "master bucket", own, DType::f32, MemoryKind::master_weights)
                               : own_values_[i]);
        if (!buckets_.cuts_values()) set_views(i, values_[i]);
        if (!buckets_.cuts_optimizer())
            for (const Bucket::Slot& slot : bucket.slots)
                slot.parameter->master = buckets_.view(masters_[i], *slot.parameter);
    }
    gathered_.resize(buckets_.count());
    in_backward_.resize(static_cast<std::size_t>(buckets_.last_group()) + 1);
    publishing_.resize(buckets_.count());
}

void ParameterStore::set_views(std::size_t bucket, const Tensor& values) {
    for (const Bucket::Slot& slot : buckets_.all()[bucket].slots) {
        Parameter& parameter = *slot.parameter;
        parameter.value = values ? buckets_.view(values, parameter) : Tensor();
    }
}

void ParameterStore::initialize(std::uint64_t seed) {
    fill([&](const Parameter& p, const Tensor& master) {
        engine().launch(kernels::FillNormal{seed, p.name, p.initial_deviation, p.initial_mean}, {master}, {master});
    });
}

void ParameterStore::fill(const ParameterBuckets::Fill& f) {
    buckets_.fill(masters_, f);
    refresh_values();
}

void ParameterStore::refresh_values() {
    for (std::size_t i = 0; i < buckets_.count(); ++i) {
        if (has_working_copies()) engine().launch(kernels::Cast{}, {masters_[i]}, {own_values_[i]});
        start_publish(i);
    }
    finish_publish();
}

void ParameterStore::start_publish(std::size_t bucket) {
    if (buckets_.cuts_optimizer() && !buckets_.cuts_values())
        publishing_[bucket] = engine().start_transition_into(own_values_[bucket], values_[bucket]);
}

void ParameterStore::finish_publish() {
    for (auto& pending : publishing_)
        if (pending) engine().finish(std::exchange(pending, nullptr));
}

Tensor ParameterStore::in_group(Tape& tape, int group, Backward backward, const std::function<Tensor()>& body) {
    if (!buckets_.cuts_values()) return body();
    const bool again = tape.recording() && backward != Backward::needs_none;
    const bool stays = again && backward == Backward::follows;
    if (again) in_backward_[static_cast<std::size_t>(group)] = true;
    enter(group);
    prefetch(group + 1);
    if (again) tape.record_hook([this, group] { leave(group); });
    Tensor result = body();
    if (again)
        tape.record_hook([this, group, stays] {
            if (!stays) enter(group);
            if (runs_backward(group - 1)) prefetch(group - 1);
        });
    if (!stays) leave(group);
    return result;
}

bool ParameterStore::runs_backward(int group) const {
    return group >= 0 && in_backward_[static_cast<std::size_t>(group)];
}

void ParameterStore::start_gather(std::size_t bucket) {
    Gathered& state = gathered_[bucket];
    if (state.whole) return;
    state.whole = engine().alloc(values_[bucket].name(), buckets_.all()[bucket].shape(), buckets_.all()[bucket].whole,
                                 compute_, MemoryKind::parameters);
    state.pending = engine().start_transition_into(values_[bucket], state.whole);
}

void ParameterStore::prefetch(int group) {
    for (std::size_t i = 0; i < buckets_.count(); ++i)
        if (buckets_.all()[i].in_group(group)) start_gather(i);
}

void ParameterStore::enter(int group) {
    prefetch(group);
    for (std::size_t i = 0; i < buckets_.count(); ++i) {
        if (!buckets_.all()[i].in_group(group)) continue;
        Gathered& state = gathered_[i];
        ++state.users;
        if (!state.pending) continue;
        engine().finish(std::exchange(state.pending, nullptr));
        set_views(i, state.whole);
    }
}

void ParameterStore::leave(int group) {
    for (std::size_t i = 0; i < buckets_.count(); ++i) {
        if (!buckets_.all()[i].in_group(group) || --gathered_[i].users > 0) continue;
        set_views(i, {});
        gathered_[i].whole = {};
    }
}

}  // namespace cleave

#include "parallel/gradient_buckets.h"

#include <algorithm>

#include "base/mutation.h"
#include "engine/functions.h"
#include "kernels/elementwise.h"
#include "parallel/data_parallel.h"
#include "parallel/layouts.h"
#include "parallel/pipeline.h"

namespace cleave {

namespace {

constexpr std::size_t kInFlight = 2;

int gradients_of(const Bucket& bucket) {
    int count = 0;
    for (const Bucket::Slot& slot : bucket.slots) count += slot.parameter->chunks_here;
    return count;
}

}  // namespace

GradientBuckets::GradientBuckets(const ParameterStore& store)
    : buckets_(store.buckets()),
      engine_(store.engine()),
      dtype_(accumulator_of(store.compute())),
      transient_(buckets_.cuts_gradients() && buckets_.options().reduce == ZeroReduce::microbatch),
      states_(buckets_.count()) {
    for (std::size_t i = 0; i < buckets_.count(); ++i) {
        const Bucket& bucket = buckets_.all()[i];
        if (transient_) {
            reduced_.push_back(buckets_.alloc(i, "gradient shard", bucket.shard, dtype_, MemoryKind::gradients));
            continue;
        }
        make_terms(i);
        const Tensor whole = states_[i].terms.relabelled(bucket.whole);
        reduced_.push_back(buckets_.cuts_optimizer() ? engine_.piece_of(whole, bucket.shard) : whole);
    }
}

void GradientBuckets::make_terms(std::size_t bucket) {
    const Layout layout = buckets_.all()[bucket].whole.dual();
    states_[bucket].terms = buckets_.alloc(bucket, "gradient bucket", layout, dtype_, MemoryKind::gradients);
    states_[bucket].missing = gradients_of(buckets_.all()[bucket]);
    set_views(bucket);
}

void GradientBuckets::set_views(std::size_t bucket) {
    const Tensor& terms = states_[bucket].terms;
    for (const Bucket::Slot& slot : buckets_.all()[bucket].slots) {
        Parameter& parameter = *slot.parameter;
        parameter.gradient =
            terms ? buckets_.view(terms, parameter, parameter.layout.dual(), parameter.name + " gradient") : Tensor();
    }
}

Tensor GradientBuckets::reduced(const Parameter& parameter) const {
    return buckets_.view(reduced_[buckets_.bucket_of(parameter)], parameter);
}

void GradientBuckets::zero() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
        State& state = states_[i];
        state.issued = state.summed = false;
        if (transient_) continue;
        engine_.launch(kernels::Fill{0.0}, {state.terms}, {state.terms});
        state.missing = gradients_of(buckets_.all()[i]);
    }
}

Tape::GradientHooks GradientBuckets::hooks(bool last_microbatch) {
    if (transient_) {
        issue_rest();  // of the microbatch before
        return {[this](Parameter& parameter) { before(parameter); },
                [this](Parameter& parameter) { ready(parameter); }};
    }
    if (!last_microbatch) return {};
    return {{}, [this](Parameter& parameter) { ready(parameter); }};
}

void GradientBuckets::before(Parameter& parameter) {
    const std::size_t bucket = buckets_.bucket_of(parameter);
    if (!states_[bucket].terms || states_[bucket].issued) {
        if (states_[bucket].issued) settle(bucket);  // of an earlier microbatch, still in flight
        make_terms(bucket);
    }
}

void GradientBuckets::ready(Parameter& parameter) {
    const std::size_t bucket = buckets_.bucket_of(parameter);
    CLEAVE_CHECK(states_[bucket].missing > 0, "the gradient of {} was ready twice", parameter.name);
    if (--states_[bucket].missing == 0) issue(bucket);
}

Tensor GradientBuckets::sum_along_layers(const Tensor& terms) const {
    const auto batch = batch_axes(engine_.mesh());
    Layout to = terms.layout();
    for (const auto& [axis, placement] : terms.layout())
        if (placement == P && std::find(batch.begin(), batch.end(), axis) == batch.end()) to.set(axis, R);
    if (mutated(Mutation::gain_not_summed)) return terms.relabelled(to);
    return engine_.finish(engine_.start_transition_in_place(terms, to));
}

void GradientBuckets::issue(std::size_t bucket) {
    if (transient_ && in_flight_.size() == kInFlight) settle(in_flight_.front());
    State& state = states_[bucket];
    const Tensor terms = sum_along_layers(state.terms);
    state.issued = true;
    in_flight_.push_back(bucket);
    if (!buckets_.cuts_optimizer()) {
        state.pending = engine_.start_transition_in_place(terms, summed(terms.layout()));
        return;
    }
    const Bucket& of = buckets_.all()[bucket];
    // Over the groups of hybrid sharding the shards are still terms.
    Layout to = terms.layout();
    for (const AxisId axis : zero_axes(engine_.mesh())) to.set(axis, S(0));
    state.sum = state.summed ? engine_.alloc(fmt::format("gradient shard {}", bucket), of.shape(), to, dtype_,
                                             MemoryKind::gradients)
                             : reduced_[bucket].relabelled(to);
    state.pending = engine_.start_transition_into(terms, state.sum);
}

void GradientBuckets::issue_rest() {
    for (std::size_t i = 0; i < states_.size(); ++i)
        if (states_[i].terms && !states_[i].issued) issue(i);
}

void GradientBuckets::end_first_sum(std::size_t bucket) {
    State& state = states_[bucket];
    const Tensor sum = engine_.finish(state.pending);
    state.pending = engine_.start_transition_in_place(sum, summed(sum.layout()));
    if (!transient_) return;
    state.terms = {};
    set_views(bucket);
}

void GradientBuckets::settle(std::size_t bucket) {
    State& state = states_[bucket];
    if (transient_) {
        in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), bucket));
        end_first_sum(bucket);
    }
    const Tensor sum = engine_.finish(std::exchange(state.pending, nullptr));
    if (state.summed) engine_.launch(kernels::Accumulate{}, {sum}, {reduced_[bucket]});
    state.sum = {};
    if (!transient_) return;
    state.summed = true;
    state.issued = false;
}

void GradientBuckets::finish() {
    issue_rest();
    if (transient_) {
        while (!in_flight_.empty()) settle(in_flight_.front());
        for (std::size_t i = 0; i < states_.size(); ++i)
            if (!states_[i].summed) engine_.launch(kernels::Fill{0.0}, {reduced_[i]}, {reduced_[i]});
    } else {
        for (const std::size_t bucket : in_flight_) end_first_sum(bucket);
        for (const std::size_t bucket : in_flight_) settle(bucket);
        in_flight_.clear();
    }
    add_other_owners_terms();
}

// Two terms: their sum is the same in either order.
void GradientBuckets::add_other_owners_terms() {
    for (std::size_t i = 0; i < buckets_.count(); ++i) {
        const Bucket& bucket = buckets_.all()[i];
        const std::optional<int> other = buckets_.other_owner(bucket);
        if (!other || mutated(Mutation::other_owner_not_added)) continue;
        const Engine::Peer peer{pipeline_axis(engine_.mesh()), *other, bucket.slots.front().parameter->index};
        const Tensor theirs = engine_.alloc(fmt::format("other owner's gradient {}", i), reduced_[i].shape(),
                                            reduced_[i].layout(), dtype_, MemoryKind::gradients);
        const auto received = engine_.start_receive(theirs, peer);
        const auto sent = engine_.start_send(reduced_[i], peer);
        engine_.finish(received);
        engine_.finish(sent);
        engine_.launch(kernels::Accumulate{}, {theirs}, {reduced_[i]});
    }
}

}  // namespace cleave

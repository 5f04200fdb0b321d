#include "train/optimizer.h"

#include <cmath>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "parallel/layouts.h"
#include "parallel/pipeline.h"

namespace cleave {

namespace {

// Along the axes that cut a bucket's parameters each rank has sums over its own pieces: terms of the sum.
Tensor as_terms(const Tensor& sums, const Bucket& bucket) {
    Layout layout = sums.layout();
    for (const AxisId axis : bucket.cut_axes) layout.set(axis, P);
    return sums.relabelled(layout);
}

}  // namespace

Optimizer::Optimizer(ParameterStore& store, const Job& job)
    : store_(store), engine_(store.engine()), train_(job.train), gathering_(store.buckets().count()) {
    if (train_.optimizer == OptimizerKind::adamw) states_ = {{"exp_avg", {}}, {"exp_avg_sq", {}}};
    for (std::size_t i = 0; i < store.buckets().count(); ++i) {
        const Bucket& bucket = store.buckets().all()[i];
        const Tensor& master = store.masters()[i];
        for (State& state : states_)
            state.flats.push_back(
                store.buckets().alloc(i, state.name, master.layout(), master.dtype(), MemoryKind::optimizer));
        partials_.push_back(engine_.alloc(fmt::format("norm partials {}", i), {bucket.blocks}, master.layout(),
                                          DType::f64, MemoryKind::optimizer));
        // The virtual engine has nothing to read: a plan takes no memory in proportion to the model.
        host_partials_.emplace_back(engine_.is_virtual() ? 0 : static_cast<std::size_t>(bucket.blocks));
        if (!train_.count_underflow) continue;
        // A count over a shard is a term of the sum over all shards.
        counts_.push_back(engine_.alloc(fmt::format("update counts {}", i), {kernels::kUpdateCounts},
                                        sum_over_elements(master.layout()), DType::f64, MemoryKind::optimizer));
    }
}

std::span<const double> Optimizer::whole_partials(std::size_t bucket) {
    const Tensor whole = engine_.finish(std::exchange(gathering_[bucket], nullptr));
    const Tensor terms = as_terms(whole, store_.buckets().all()[bucket]);
    std::vector<double>& host = host_partials_[bucket];
    engine_.read_bytes(engine_.transition(terms, summed(terms.layout())), std::as_writable_bytes(std::span(host)));
    return host;
}

double Optimizer::norm(const GradientBuckets& gradients) {
    const ParameterBuckets& buckets = store_.buckets();
    for (std::size_t i = 0; i < buckets.count(); ++i) {
        engine_.launch(kernels::SquaredNorm{}, {gradients.reduced()[i]}, {partials_[i]});
        gathering_[i] = engine_.start_transition(partials_[i], buckets.all()[i].whole);
    }
    for (std::size_t i = 0; i < buckets.count(); ++i) whole_partials(i);
    squares_.assign(buckets.all_parameters().size(), 0.0);
    if (!engine_.is_virtual())
        for (const Parameter* parameter : buckets.parameters()) {
            const std::size_t bucket = buckets.bucket_of(*parameter);
            if (!buckets.owns_first(buckets.all()[bucket])) continue;
            const Bucket::Slot& slot = buckets.slot_of(*parameter);
            const auto first = host_partials_[bucket].begin() + slot.first_block;
            squares_[static_cast<std::size_t>(parameter->index)] = std::accumulate(first, first + slot.blocks, 0.0);
        }
    sum_over_stages(engine_, squares_, "squared gradients");
    return engine_.is_virtual() ? 0 : std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

double Optimizer::update(const GradientBuckets& gradients, std::int64_t step, double learning_rate) {
    const double total = norm(gradients);
    if (!std::isfinite(total)) return total;
    const double clip = train_.clip;
    const double scale = clip > 0 && total > clip ? clip / (total + 1e-6) : 1.0;
    for (std::size_t i = 0; i < store_.buckets().count(); ++i) {
        update_bucket(i, gradients.reduced()[i], step, learning_rate, scale);
        store_.start_publish(i);
    }
    store_.finish_publish();
    if (!counts_.empty()) read_counts();
    return total;
}

void Optimizer::update_bucket(std::size_t bucket, const Tensor& gradient, std::int64_t step, double learning_rate,
                              double gradient_scale) {
    const bool low = store_.has_working_copies();  // the kernel also writes the bf16 value
    const bool count = !counts_.empty();
    const double decay = store_.buckets().all()[bucket].decays ? train_.weight_decay : 0.0;
    std::vector<Tensor> outputs{store_.masters()[bucket]};
    for (const State& state : states_) outputs.push_back(state.flats[bucket]);
    if (low) outputs.push_back(store_.working_copies()[bucket]);
    if (count) outputs.push_back(counts_[bucket]);
    if (train_.optimizer == OptimizerKind::adamw)
        engine_.launch(kernels::AdamW{learning_rate, train_.beta1, train_.beta2, train_.epsilon, decay, gradient_scale,
                                      step, low, count},
                       std::span(&gradient, 1), outputs);
    else
        engine_.launch(kernels::Sgd{learning_rate, decay, gradient_scale, low, count}, std::span(&gradient, 1),
                       outputs);
}

void Optimizer::read_counts() {
    std::vector<double> sums(kernels::kUpdateCounts);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        const Bucket& bucket = store_.buckets().all()[i];
        const Tensor terms = as_terms(counts_[i], bucket);
        double counts[kernels::kUpdateCounts];
        engine_.read_bytes(engine_.transition(terms, summed(terms.layout())),
                           std::as_writable_bytes(std::span(counts)));
        if (!store_.buckets().owns_first(bucket)) continue;
        for (std::size_t c = 0; c < kernels::kUpdateCounts; ++c) sums[c] += counts[c];
    }
    sum_over_stages(engine_, sums, "update counts");
    const auto count = [&](std::size_t which) { return static_cast<std::int64_t>(sums[which]); };
    underflow_ = {count(kernels::kGradientsUnderflowed), count(kernels::kUpdatesLost), count(kernels::kUpdatesWaiting)};
}

}  // namespace cleave

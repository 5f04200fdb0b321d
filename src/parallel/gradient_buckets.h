// The gradients of a store's parameters and their way to the optimizer's placement, bucket by bucket: first along the
// axes that cut layers (P -> R, where a parameter is R along them), then along those of the batch.
//
//     stage 0    P -> R         an all_reduce in place
//     stage 1    P -> S(0)      a reduce_scatter in place: this rank's shard of the same memory holds the sum
//     2 and 3    P -> S(0)      a reduce_scatter of memory that lives while a microbatch's backward adds to it, into a
//                               shard that stays; with ZeroReduce::step as stage 1
// Hybrid sharding (parallel/zero.h) adds P -> R of the shards over the groups.
//
// Where two stages of a pipeline own a bucket, both add their reduced terms at the end, in the order of stages.
//
// A bucket's reduction is issued as soon as its last gradient is complete, while backward still runs. Of buckets that
// live for a microbatch at most two are in flight: the program frees them, not the clock. Sums follow the canonical
// order for every element, so bits do not depend on the size of the buckets.
// Thread rule: one rank's thread.
#pragma once

#include <deque>

#include "engine/tape.h"
#include "parallel/parameter_store.h"

namespace cleave {

class GradientBuckets {
  public:
    explicit GradientBuckets(const ParameterStore& store);

    // Begins a step.
    void zero();
    // For the backward of one microbatch after the other.
    Tape::GradientHooks hooks(bool last_microbatch);
    // Issues what is left (parameters that the step did not use) and waits for all.
    void finish();

    // The reduced gradients, where the optimizer wants them. Valid after finish().
    const Flats& reduced() const { return reduced_; }
    // One of them, in stage 0; the same memory as parameter.gradient.
    Tensor reduced(const Parameter& parameter) const;
    int bucket_count() const { return static_cast<int>(buckets_.count()); }

  private:
    struct State {
        Tensor terms;     // whole, P; empty outside of a backward where it lives only so long
        int missing = 0;  // gradients that are not ready, one for each chunk that uses a parameter
        bool issued = false;
        bool summed = false;  // the reduced gradient holds an earlier microbatch's
        Tensor sum;           // what the reduction goes to
        std::shared_ptr<PendingTransition> pending;
    };
    void make_terms(std::size_t bucket);
    void set_views(std::size_t bucket);
    void before(Parameter& parameter);
    void ready(Parameter& parameter);
    void issue(std::size_t bucket);
    void issue_rest();
    Tensor sum_along_layers(const Tensor& terms) const;
    void end_first_sum(std::size_t bucket);
    void settle(std::size_t bucket);
    void add_other_owners_terms();

    const ParameterBuckets& buckets_;
    Engine& engine_;
    DType dtype_;
    bool transient_;  // terms live while a backward adds to them
    std::vector<State> states_;
    Flats reduced_;
    std::deque<std::size_t> in_flight_;
};

}  // namespace cleave

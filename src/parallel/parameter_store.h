// The owner of the parameters' memory: values in the dtype of the computation and, under bf16, their f32 masters, in
// flat buckets (parallel/parameter_buckets.h) that ZeRO may cut.
//
//              value                                    master under bf16
//     stage 0  whole                                    whole
//     1 and 2  whole; each rank updates its shard,      shard
//              publish() gathers it (S -> R)
//     stage 3  shard; a part of the model is gathered   shard
//              for its forward, and again for its
//              backward, the next part while it runs
// Without bf16 the master is the value, or this rank's shard of it.
//
// In stage 3 two parts of the model are whole at a time, the one that runs and the next; the head stays whole from its
// forward to its backward, and the embedding is not gathered for backward, which needs none of its values. The
// model says which part it runs by in_group(), in other stages a plain call. Thread rule: one rank's thread.
#pragma once

#include <memory>

#include "engine/tape.h"
#include "parallel/parameter_buckets.h"

namespace cleave {

class ParameterStore {
  public:
    // `parameters`: of the whole model, in the order of first use. Allocates those that this rank's stage of the
    // pipeline owns, zeroed. The parameters outlive the store, which sets their value and master where they are
    // whole.
    ParameterStore(Engine& engine, std::span<Parameter* const> parameters, DType compute,
                   const ZeroOptions& options = {});
    ParameterStore(const ParameterStore&) = delete;
    ParameterStore& operator=(const ParameterStore&) = delete;

    Engine& engine() const { return buckets_.engine(); }
    const ParameterBuckets& buckets() const { return buckets_; }
    DType compute() const { return compute_; }

    // What the optimizer updates: whole in stage 0, shards in the others.
    const Flats& masters() const { return masters_; }
    // The working copies of the same elements, under bf16.
    const Flats& working_copies() const { return own_values_; }
    bool has_working_copies() const { return compute_ == DType::bf16; }

    // Masters from (seed, name, global index), and values from them.
    void initialize(std::uint64_t seed);
    // Masters from f(parameter, memory), and values from them.
    void fill(const ParameterBuckets::Fill& f);
    // After the masters have changed by other means than the optimizer.
    void refresh_values();

    // After masters and working copies of `bucket` have changed: makes the values whole again where they were. All are
    // finished together.
    void start_publish(std::size_t bucket);
    void finish_publish();

    enum class Backward : std::uint8_t {
        needs_values,
        follows,  // needs values, and comes next: they stay
        needs_none,
    };
    // Runs `body`, which uses the parameters of part `group` of the model (Parameter::group), and has them there then
    // and in the backward of what it records.
    Tensor in_group(Tape& tape, int group, Backward backward, const std::function<Tensor()>& body);

  private:
    struct Gathered {
        Tensor whole;  // empty unless it is whole, or on its way
        std::shared_ptr<PendingTransition> pending;
        int users = 0;
    };
    void set_views(std::size_t bucket, const Tensor& values);
    void enter(int group);
    void prefetch(int group);
    void leave(int group);
    void start_gather(std::size_t bucket);
    bool runs_backward(int group) const;

    ParameterBuckets buckets_;
    DType compute_;
    Flats values_;      // as stated above
    Flats own_values_;  // this rank's shard of them; in stage 0 all
    Flats masters_;
    std::vector<Gathered> gathered_;  // stage 3
    std::vector<bool> in_backward_;   // stage 3: the parts that backward gathers
    std::vector<std::shared_ptr<PendingTransition>> publishing_;
};

}  // namespace cleave

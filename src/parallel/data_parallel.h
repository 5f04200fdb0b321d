// Data parallelism: the batch is S(0) along dp, parameters are R. A parameter's gradient is then P along dp (the dual
// of R), and the one communication of a step is its transition from P to R. It is made in buckets of flat memory, so
// that it is few large messages, and each bucket is issued as soon as its last gradient is complete, while backward
// still runs. Sums follow the canonical order for every element, so bits do not depend on the size of the buckets.
//
// bytes: a step sends 2 (n-1)/n of the gradients' bytes a rank, whatever the number of microbatches.
// Thread rule: one rank's thread.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "engine/tape.h"
#include "parallel/layouts.h"

namespace cleave {

ModelLayouts data_parallel_layouts(const Mesh& mesh);

class GradientBuckets {
  public:
    // Allocates every parameter's gradient inside flat buffers of about `bucket_bytes`, in the order in which backward
    // completes them (the reverse of `parameters`). A parameter larger than a bucket has one to itself.
    GradientBuckets(Engine& engine, std::span<Parameter* const> parameters, std::int64_t bucket_bytes);

    void zero();
    // To be passed to the last microbatch's backward: issues a bucket's reduction when its last gradient is ready.
    Tape::GradientReady on_ready();
    // Issues what is left (parameters that the step did not use) and waits for all. The gradients are then R along dp.
    void finish();
    // The reduced gradient; the same memory as parameter.gradient. Valid after finish().
    const Tensor& reduced(const Parameter& parameter) const { return reduced_.at(&parameter); }
    int bucket_count() const { return static_cast<int>(buckets_.size()); }

  private:
    struct Bucket {
        Tensor flat;
        int parameters = 0;
        int missing = 0;  // gradients not yet ready in this step
        std::shared_ptr<PendingTransition> pending;
    };
    void issue(Bucket& bucket);

    Engine& engine_;
    std::vector<Bucket> buckets_;
    std::unordered_map<const Parameter*, std::size_t> bucket_of_;
    std::unordered_map<const Parameter*, Tensor> reduced_;
};

}  // namespace cleave

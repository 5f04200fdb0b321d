// The sums over the events of traced steps: time, flops and bytes by kernel, and the matrix products.
// Thread rule: a value.
#pragma once

#include <span>

#include "engine/trace.h"
#include "train/step_measure.h"

namespace cleave {

class StepTrace {
  public:
    // One step's events; it ended at `end`, in seconds since the trace began.
    void add(std::span<const Event> events, double end);
    // What is known of a step from its trace, as means over the steps that were added.
    void mean_into(StepMeasurement& measurement) const;

  private:
    void add_launch(const Event& event);
    ProductCost& product_of(const kernels::Gemm& gemm);

    int steps_ = 0;
    double seconds_ = 0;
    double communication_ = 0;
    std::vector<KernelCost> kernels_;
    std::vector<ProductCost> products_;  // step_seconds: the sum over all
};

}  // namespace cleave

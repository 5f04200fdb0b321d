#include "kernels/kernel.h"

namespace cleave::kernels {

Cost elementwise_cost(Views inputs, Views outputs, double flops_per_element) {
    Cost cost;
    for (const View& view : inputs) cost.bytes += static_cast<double>(view.bytes());
    for (const View& view : outputs) cost.bytes += static_cast<double>(view.bytes());
    cost.flops = flops_per_element * static_cast<double>(outputs[0].elements());
    return cost;
}

}  // namespace cleave::kernels

#include "train/step_trace.h"

#include <algorithm>

namespace cleave {

void StepTrace::add(std::span<const Event> events, double end) {
    ++steps_;
    seconds_ += end;
    communication_ += exposed_communication(events);
    for (const Event& event : events)
        if (event.type == EventType::launch) add_launch(event);
}

void StepTrace::add_launch(const Event& event) {
    auto found = std::find_if(kernels_.begin(), kernels_.end(), [&](const auto& k) { return k.name == event.name; });
    if (found == kernels_.end()) found = kernels_.insert(found, {event.name});
    found->launches += 1;
    found->seconds += event.end - event.begin;
    found->flops += event.flops;
    found->bytes += static_cast<double>(event.bytes);
    for (const kernels::Product& product : event.products) product_of(product.gemm).count += product.count;
    if (event.products.size() == 1 && event.products[0].count == 1)
        product_of(event.products[0].gemm).step_seconds += event.end - event.begin;
}

ProductCost& StepTrace::product_of(const kernels::Gemm& gemm) {
    const auto found =
        std::find_if(products_.begin(), products_.end(), [&](const auto& product) { return product.gemm == gemm; });
    return found != products_.end() ? *found : products_.emplace_back(ProductCost{gemm});
}

void StepTrace::mean_into(StepMeasurement& measurement) const {
    const double n = steps_;
    measurement.traced_seconds = seconds_ / n;
    measurement.communication_seconds = communication_ / n;
    measurement.kernels = kernels_;
    for (KernelCost& kernel : measurement.kernels) {
        kernel.launches /= n;
        kernel.seconds /= n;
        kernel.flops /= n;
        kernel.bytes /= n;
    }
    std::stable_sort(measurement.kernels.begin(), measurement.kernels.end(),
                     [](const KernelCost& a, const KernelCost& b) { return a.seconds > b.seconds; });
    measurement.products = products_;
    for (ProductCost& product : measurement.products) {
        product.step_seconds /= product.count;
        product.count /= n;
    }
}

}  // namespace cleave

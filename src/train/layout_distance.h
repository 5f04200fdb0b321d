// What "equal" means between layouts (ARCHITECTURE.md, "Equal"): how far the gradients and the parameters of one run
// are from those of another of the same job. Thread rule: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace cleave {

// Whole tensors by parameter name.
using ParameterValues = std::map<std::string, std::vector<double>>;

// Of each parameter's gradient: the L2 norm of the difference over max(L2 of the reference, global norm x sqrt(its
// share of all elements)). Some gradients are truly zero (GPT-2's key bias), so that a relative difference alone means
// nothing. What is not finite is infinitely far.
std::map<std::string, double> gradient_distances(const ParameterValues& reference, const ParameterValues& other);

// Of each parameter: the root mean square of the difference, in units of steps x learning rate.
std::map<std::string, double> parameter_distances(const ParameterValues& reference, const ParameterValues& other,
                                                  double steps_times_rate);

struct Worst {
    double distance = 0;
    std::string parameter;
};
Worst worst_of(const std::map<std::string, double>& distances);

}  // namespace cleave

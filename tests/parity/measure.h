// What "equal" means between layouts (ARCHITECTURE.md, "Equal"). Difference of two gradients of a parameter: the L2
// norm of the difference over max(L2 of the reference, global norm x sqrt(its share of all elements)).
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace cleave::test {

using Values = std::map<std::string, std::vector<double>>;

inline double squared(const std::vector<double>& values) {
    double sum = 0;
    for (double v : values) sum += v * v;
    return sum;
}

struct Worst {
    double difference = 0;
    std::string parameter;
};

inline std::map<std::string, double> gradient_differences(const Values& reference, const Values& other) {
    double total = 0;
    double elements = 0;
    for (const auto& [name, values] : reference) {
        total += squared(values);
        elements += static_cast<double>(values.size());
    }
    std::map<std::string, double> differences;
    for (const auto& [name, values] : reference) {
        std::vector<double> difference = other.at(name);
        for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
        const double floor = std::sqrt(total) * std::sqrt(static_cast<double>(values.size()) / elements);
        differences[name] = std::sqrt(squared(difference)) / std::max(std::sqrt(squared(values)), floor);
    }
    return differences;
}

inline Worst worst_gradient_difference(const Values& reference, const Values& other) {
    Worst worst;
    for (const auto& [name, relative] : gradient_differences(reference, other))
        if (!(relative <= worst.difference)) worst = {relative, name};  // NaN counts as the worst
    return worst;
}

// Root mean square of the difference of parameters, in units of steps x learning rate.
inline Worst worst_parameter_difference(const Values& reference, const Values& other, double steps_times_rate) {
    Worst worst;
    for (const auto& [name, values] : reference) {
        std::vector<double> difference = other.at(name);
        for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
        const double rms = std::sqrt(squared(difference) / static_cast<double>(values.size())) / steps_times_rate;
        if (!(rms <= worst.difference)) worst = {rms, name};
    }
    return worst;
}

}  // namespace cleave::test

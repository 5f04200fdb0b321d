#include "train/layout_distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace cleave {

namespace {

double squared(const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v * v;
    return sum;
}

double squared_difference(const std::vector<double>& a, const std::vector<double>& b) {
    CLEAVE_CHECK(a.size() == b.size(), "{} values beside {}", a.size(), b.size());
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

double finite(double distance) {
    return std::isfinite(distance) ? distance : std::numeric_limits<double>::infinity();
}

}  // namespace

std::map<std::string, double> gradient_distances(const ParameterValues& reference, const ParameterValues& other) {
    double total = 0;
    double elements = 0;
    for (const auto& [name, values] : reference) {
        total += squared(values);
        elements += static_cast<double>(values.size());
    }
    std::map<std::string, double> distances;
    for (const auto& [name, values] : reference) {
        const double difference = std::sqrt(squared_difference(values, other.at(name)));
        const double floor = std::sqrt(total * static_cast<double>(values.size()) / elements);
        const double size = std::max(std::sqrt(squared(values)), floor);
        distances[name] = size == 0 && difference == 0 ? 0 : finite(difference / size);
    }
    return distances;
}

std::map<std::string, double> parameter_distances(const ParameterValues& reference, const ParameterValues& other,
                                                  double steps_times_rate) {
    std::map<std::string, double> distances;
    for (const auto& [name, values] : reference) {
        const double mean = squared_difference(values, other.at(name)) / static_cast<double>(values.size());
        distances[name] = finite(std::sqrt(mean) / steps_times_rate);
    }
    return distances;
}

Worst worst_of(const std::map<std::string, double>& distances) {
    Worst worst;
    for (const auto& [name, distance] : distances)
        if (worst.parameter.empty() || distance > worst.distance) worst = {distance, name};
    return worst;
}

}  // namespace cleave

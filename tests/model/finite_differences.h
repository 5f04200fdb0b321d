// Gradients against central finite differences, in f64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tiny_model.h"

namespace cleave::test {

// Central differences at kEpsilon and kEpsilon / 2, extrapolated (Richardson): of an f64 loss near 3 the rounding is
// about 3 x 2^-53 / kEpsilon = 7e-13, the truncation of order kEpsilon^4.
inline constexpr double kEpsilon = 5e-4;
inline constexpr double kTolerance = 1e-9;

// The slope of `value` along `direction` of the parameter's weights.
inline double finite_difference(Parameter& parameter, const std::vector<double>& direction,
                                const std::function<double()>& value) {
    const auto weights = elements(parameter.value);
    const std::vector<double> saved(weights.begin(), weights.end());
    const auto shifted = [&](double by) {
        for (std::size_t i = 0; i < saved.size(); ++i) weights[i] = saved[i] + by * direction[i];
        return value();
    };
    const auto central = [&](double by) { return (shifted(by) - shifted(-by)) / (2 * by); };
    const double slope = (4 * central(kEpsilon / 2) - central(kEpsilon)) / 3;
    std::copy(saved.begin(), saved.end(), weights.begin());
    return slope;
}

// Every parameter's gradient is that of `value`, a function of the weights.
inline void expect_finite_differences(const std::vector<Parameter*>& parameters, const std::function<double()>& value) {
    for (Parameter* parameter : parameters) {
        const auto gradient = elements(parameter->gradient);
        const RandomStream random(3, parameter->name);
        for (std::uint64_t trial = 0; trial < 4; ++trial) {
            // A random direction first, then single elements.
            std::vector<double> direction(gradient.size(), 0.0);
            if (trial == 0)  // of length about one
                for (std::size_t i = 0; i < direction.size(); ++i)
                    direction[i] = random.normal(i + 100) / std::sqrt(static_cast<double>(direction.size()));
            else
                direction[random.below(trial, direction.size())] = 1.0;
            double expected = 0;
            for (std::size_t i = 0; i < direction.size(); ++i) expected += gradient[i] * direction[i];
            EXPECT_NEAR(finite_difference(*parameter, direction, value), expected,
                        kTolerance * std::max(1.0, std::abs(expected)))
                << parameter->name << " trial " << trial;
        }
    }
}

}  // namespace cleave::test

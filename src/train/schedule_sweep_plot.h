// A schedule measured with growing numbers of microbatches, as a picture: above the busy share as it was measured, by
// formula and by simulation, below the time of a step. m stands in a scale of doublings.
// Thread rule: a pure function.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cleave {

struct SweepPoint {
    int microbatches;
    double step_ms;
    double busy;  // shares of 1
    double busy_simulated;
    std::optional<double> busy_formula;
};
// Of at least one point.
std::string sweep_plot(std::string_view title, std::span<const SweepPoint> points);

}  // namespace cleave

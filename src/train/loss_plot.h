// loss.svg: the losses of a run over its steps, as a picture that any browser shows.
// It reads what metrics.jsonl holds: "loss" (of a step's batch), "train_loss" and "validation_loss" (evaluations).
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cleave {

std::string loss_plot(std::string_view title, const std::vector<Json>& metrics);

// At most about `count` round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high]; low < high.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace cleave

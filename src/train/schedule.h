// The learning rate as a pure function of the step, so that a resumed run has the same one (no state to restore).
// With t = step + 1 updates done after it, W warm-up steps and N steps:
//   t <= W: lr t / W;   W < t <= N: min_lr + (lr - min_lr) (1 + cos(pi (t - W) / (N - W))) / 2;   t > N: min_lr.
// (Loshchilov & Hutter, "SGDR", 2017, equation 5, one period.)
// Thread rule: a pure function.
#pragma once

#include "train/job.h"

namespace cleave {

double learning_rate(const Job::Train& train, std::int64_t step);  // step counts from 0

}  // namespace cleave

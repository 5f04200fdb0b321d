// Learning rate and batch size as pure functions of the step, so that a resumed run has the same ones (no state to
// restore). With t = step + 1 updates done after it, W warm-up steps and N steps the learning rate is
//   t <= W: lr t / W;   then, with p = (t - W) / (N - W) the part of the rest that is done:
//   cosine:    min_lr + (lr - min_lr) (1 + cos(pi p)) / 2   (Loshchilov & Hutter, "SGDR", 2017, equation 5, one period)
//   linear:    min_lr + (lr - min_lr) (1 - p)
//   wsd:       lr up to the last D steps, in which it falls to min_lr in a straight line (warm-up, stable, decay: Hu et
//              al., "MiniCPM", 2024, section 4)
//   constant:  lr
// and that of step N after it. Thread rule: pure functions.
#pragma once

#include "train/job.h"

namespace cleave {

double learning_rate(const Job::Train& train, std::int64_t step);  // step counts from 0

// Sequences in the global batch of a step: with a ramp k x ramp_batch, where k rises from 1 by ones, at equal
// distances, and reaches batch / ramp_batch at step ramp_steps.
std::int64_t global_batch(const Job::Train& train, std::int64_t step);

// Steps of the decay at the end of wsd.
std::int64_t decay_steps(const Job::Train& train);

}  // namespace cleave

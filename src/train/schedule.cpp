#include "train/schedule.h"

#include <cmath>
#include <numbers>

namespace cleave {

double learning_rate(const Job::Train& train, std::int64_t step) {
    const std::int64_t updates = step + 1;
    if (updates <= train.warmup_steps)
        return train.lr * static_cast<double>(updates) / static_cast<double>(train.warmup_steps);
    if (updates >= train.steps) return train.min_lr;
    const double progress =
        static_cast<double>(updates - train.warmup_steps) / static_cast<double>(train.steps - train.warmup_steps);
    return train.min_lr + (train.lr - train.min_lr) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace cleave

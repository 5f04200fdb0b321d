#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cleave {

namespace {

// How much of lr - min_lr is left when `updates`, more than the warm-up's, are done.
double height(const Job::Train& train, std::int64_t updates) {
    const auto progress = [&](std::int64_t begin) {
        return std::clamp(static_cast<double>(updates - begin) / static_cast<double>(train.steps - begin), 0.0, 1.0);
    };
    switch (train.lr_schedule) {
        case LrSchedule::cosine: return 0.5 * (1.0 + std::cos(std::numbers::pi * progress(train.warmup_steps)));
        case LrSchedule::linear: return 1.0 - progress(train.warmup_steps);
        case LrSchedule::wsd: return 1.0 - progress(train.steps - decay_steps(train));
        case LrSchedule::constant: return 1.0;
    }
    return 1.0;
}

}  // namespace

std::int64_t decay_steps(const Job::Train& train) {
    const std::int64_t wanted = train.decay_steps == 0 ? (train.steps + 9) / 10 : train.decay_steps;
    return std::min(wanted, train.steps - train.warmup_steps);
}

double learning_rate(const Job::Train& train, std::int64_t step) {
    const std::int64_t updates = std::min(step + 1, train.steps);
    if (updates <= train.warmup_steps)
        return train.lr * static_cast<double>(updates) / static_cast<double>(train.warmup_steps);
    return train.min_lr + (train.lr - train.min_lr) * height(train, updates);
}

std::int64_t global_batch(const Job::Train& train, std::int64_t step) {
    if (train.ramp_batch == 0 || step >= train.ramp_steps) return train.batch;
    const std::int64_t rises = train.batch / train.ramp_batch - 1;
    return train.ramp_batch * (1 + step * rises / train.ramp_steps);
}

}  // namespace cleave

#include "train/schedule.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

Job::Train settings(std::int64_t steps, std::int64_t warmup) {
    Job::Train train;
    train.steps = steps;
    train.warmup_steps = warmup;
    train.lr = 1e-3;
    train.min_lr = 1e-4;
    return train;
}

TEST(LearningRate, RisesInAStraightLine) {
    const auto train = settings(2000, 100);
    EXPECT_DOUBLE_EQ(learning_rate(train, 0), 1e-5);
    EXPECT_DOUBLE_EQ(learning_rate(train, 49), 5e-4);
    EXPECT_DOUBLE_EQ(learning_rate(train, 99), 1e-3);
}

TEST(LearningRate, FallsAlongAHalfCosine) {
    const auto train = settings(2100, 100);
    EXPECT_NEAR(learning_rate(train, 99 + 1000), 5.5e-4, 1e-15);                           // half way: the mean
    EXPECT_NEAR(learning_rate(train, 99 + 500), 1e-4 + 9e-4 * 0.8535533905932737, 1e-15);  // (1 + cos 45 degrees) / 2
    EXPECT_DOUBLE_EQ(learning_rate(train, 2099), 1e-4);                                    // the last step
    EXPECT_DOUBLE_EQ(learning_rate(train, 5000), 1e-4);
    for (std::int64_t step = 100; step < 2100; ++step)
        ASSERT_LT(learning_rate(train, step), learning_rate(train, step - 1)) << step;
}

TEST(LearningRate, NeedsNoWarmUpAndNoDecay) {
    EXPECT_LT(learning_rate(settings(10, 0), 0), 1e-3);
    EXPECT_DOUBLE_EQ(learning_rate(settings(10, 0), 9), 1e-4);
    EXPECT_DOUBLE_EQ(learning_rate(settings(10, 10), 9), 1e-3);
    EXPECT_DOUBLE_EQ(learning_rate(settings(1, 0), 0), 1e-4);
}

}  // namespace
}  // namespace cleave

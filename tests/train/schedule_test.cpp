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

TEST(LearningRate, FallsInAStraightLine) {
    auto train = settings(2100, 100);
    train.lr_schedule = LrSchedule::linear;
    EXPECT_DOUBLE_EQ(learning_rate(train, 99), 1e-3);
    EXPECT_NEAR(learning_rate(train, 99 + 500), 1e-4 + 9e-4 * 0.75, 1e-15);
    EXPECT_DOUBLE_EQ(learning_rate(train, 2099), 1e-4);
    EXPECT_DOUBLE_EQ(learning_rate(train, 9999), 1e-4);
}

TEST(LearningRate, StaysAndThenFalls) {
    auto train = settings(1000, 100);
    train.lr_schedule = LrSchedule::wsd;
    train.decay_steps = 200;
    for (std::int64_t step = 99; step < 800; ++step) ASSERT_DOUBLE_EQ(learning_rate(train, step), 1e-3) << step;
    EXPECT_NEAR(learning_rate(train, 899), 5.5e-4, 1e-15);
    EXPECT_DOUBLE_EQ(learning_rate(train, 999), 1e-4);
    train.decay_steps = 0;  // a tenth
    EXPECT_DOUBLE_EQ(learning_rate(train, 899), 1e-3);
    EXPECT_NEAR(learning_rate(train, 949), 5.5e-4, 1e-15);
    train.warmup_steps = 950;  // less than a tenth is left
    EXPECT_DOUBLE_EQ(learning_rate(train, 949), 1e-3);
    EXPECT_DOUBLE_EQ(learning_rate(train, 999), 1e-4);
}

TEST(LearningRate, Stays) {
    auto train = settings(100, 10);
    train.lr_schedule = LrSchedule::constant;
    EXPECT_DOUBLE_EQ(learning_rate(train, 4), 5e-4);
    for (std::int64_t step = 9; step < 200; ++step) ASSERT_DOUBLE_EQ(learning_rate(train, step), 1e-3);
}

TEST(BatchRamp, GrowsByEqualAmountsAtEqualDistances) {
    Job::Train train;
    train.batch = 40;
    EXPECT_EQ(global_batch(train, 0), 40);
    train.ramp_batch = 8;
    train.ramp_steps = 100;
    const std::int64_t expected[] = {8, 16, 24, 32};
    for (std::int64_t step = 0; step < 100; ++step) ASSERT_EQ(global_batch(train, step), expected[step / 25]) << step;
    EXPECT_EQ(global_batch(train, 100), 40);
    EXPECT_EQ(global_batch(train, 100000), 40);
    train.ramp_steps = 1;
    EXPECT_EQ(global_batch(train, 0), 8);
    EXPECT_EQ(global_batch(train, 1), 40);
}

TEST(BatchRamp, IsCutIntoPassesOfOneSize) {
    Job job;
    job.train.batch = 40;
    job.train.ramp_batch = 8;
    job.train.ramp_steps = 100;
    EXPECT_EQ(microbatch_size(job, 2), 4);
    EXPECT_EQ(accumulation(job, 2, 8), 1);
    EXPECT_EQ(accumulation(job, 2, 40), 5);
    job.train.microbatch = 2;
    EXPECT_EQ(accumulation(job, 2, 24), 6);
}

}  // namespace
}  // namespace cleave

// A measured step against closed formulas: the products of a transformer by its shape, for both families, tied or not,
// with and without recomputation, on several ranks.
#include "train/step_measure.h"

#include <gmock/gmock.h>

#include <cmath>

#include "train/step_trace.h"

namespace cleave {
namespace {

constexpr std::int64_t kMeasuredBatch = 4;

Job job_of(Family family, bool tied) {
    Job job;
    job.model.family = family;
    job.model.layers = 2;
    job.model.heads = 4;
    job.model.kv_heads = family == Family::llama ? 2 : 0;
    job.model.width = 32;
    job.model.mlp_width = 80;
    job.model.context = 24;
    job.model.vocabulary = 50;
    job.model.tied_embeddings = tied;
    job.train.batch = kMeasuredBatch;
    return job;
}

// 6 flops a weight of a matrix and token, and 6 products of attention over the visible pairs of each sequence and head.
double closed_formula(const ModelConfig& m, std::int64_t rows) {
    const auto width = static_cast<double>(m.width);
    const double kv = static_cast<double>(m.head_channels() * m.key_value_heads());
    const double mlp = static_cast<double>(m.hidden_mlp()) * width * (m.family == Family::gpt2 ? 2 : 3);
    const double block = 2 * width * width + 2 * width * kv + mlp;
    const double weights = static_cast<double>(m.layers) * block + static_cast<double>(m.vocabulary) * width;
    const auto t = static_cast<double>(m.context);
    const double attention = 6 * 2 * width * t * (t + 1) / 2 * static_cast<double>(m.layers);
    return static_cast<double>(rows) * (6 * weights * t + attention);
}

double product_flops(const StepMeasurement& m) {
    double flops = 0;
    for (const ProductCost& product : m.products) flops += product.count * kernels::flops_of(product.gemm);
    return flops;
}

double kernel_flops(const StepMeasurement& m, std::string_view name) {
    for (const KernelCost& kernel : m.kernels)
        if (kernel.name == name) return kernel.flops;
    return 0;
}

StepMeasurement measured(const Job& job, int ranks = 1) {
    return measure_step(job, {.ranks = ranks, .team = 1, .warmup = 1, .rounds = 2, .round_seconds = 0.01});
}

TEST(StepMeasure, CountsTheProductsOfEveryModelByItsTrace) {
    for (const Family family : {Family::gpt2, Family::llama})
        for (const bool tied : {true, false}) {
            const Job job = job_of(family, tied);
            const StepMeasurement m = measured(job);
            const double expected = closed_formula(job.model, kMeasuredBatch);
            EXPECT_NEAR(product_flops(m), expected, 1e-9 * expected);
            EXPECT_EQ(m.tokens, kMeasuredBatch * job.model.context);
            // The kernels' own flops: the same products, and the scores that backward computes again.
            const double all = kernel_flops(m, "matmul") + kernel_flops(m, "attention") +
                               kernel_flops(m, "attention_backward") * 4 / 5;
            EXPECT_NEAR(all, expected, 1e-9 * expected);
        }
}

TEST(StepMeasure, DividesTheBatchOverRanksAndMicrobatches) {
    Job job = job_of(Family::gpt2, true);
    job.train.microbatch = 1;
    const StepMeasurement m = measured(job, 2);
    const double expected = closed_formula(job.model, kMeasuredBatch / 2);  // of rank 0
    EXPECT_NEAR(product_flops(m), expected, 1e-9 * expected);
    EXPECT_EQ(m.ranks, 2);
    EXPECT_EQ(m.tokens, kMeasuredBatch * job.model.context);
    EXPECT_GT(m.communication_seconds, 0);
}

TEST(StepMeasure, ItsTimesAddUp) {
    const StepMeasurement m = measured(job_of(Family::llama, true));
    double kernels = 0;
    for (const KernelCost& kernel : m.kernels) kernels += kernel.seconds;
    EXPECT_GT(kernels, 0);
    EXPECT_GT(m.outside_seconds(), 0);
    EXPECT_NEAR(kernels + m.communication_seconds + m.outside_seconds(), m.traced_seconds, 1e-9);
    double products = 0;
    for (const ProductCost& product : m.products) {
        EXPECT_GT(product.seconds, 0);
        products += product.count * product.seconds;
    }
    EXPECT_NEAR(products, m.product_seconds, 1e-9 * m.product_seconds);  // of two rounds the median is the mean
    ASSERT_EQ(m.ratios.size(), 2U);
    EXPECT_GE(m.roofline_ratio(), std::min(m.ratios[0], m.ratios[1]));
    EXPECT_LE(m.roofline_ratio(), std::max(m.ratios[0], m.ratios[1]));
    EXPECT_GT(m.roofline_ratio(), 0);
    std::int64_t bytes = 0;
    for (const std::int64_t part : m.peak_bytes) bytes += part;
    EXPECT_GT(bytes, 16 * m.parameters);  // values, gradients, two moments, and activations
    EXPECT_GE(m.arena_bytes, bytes);
}

Event launch(const char* name, double begin, double end, std::vector<kernels::Product> products = {}) {
    Event event{EventType::launch, name, "", 10, 100, 0, begin, end};
    event.products = std::move(products);
    return event;
}

TEST(StepTrace, AddsUpEventsAsMeansOverSteps) {
    const kernels::Gemm gemm{.m = 2, .n = 3, .k = 4};
    std::vector<Event> events{launch("matmul", 0, 1, {{gemm}}),
                              launch("add", 1, 3),
                              {EventType::wait, "all_reduce", "", 0, 0, 0, 3, 3.5},
                              launch("matmul", 4, 7, {{gemm}})};
    events[1].moving = 0.25;  // of 3 to 4
    StepTrace trace;
    trace.add(events, 8);
    trace.add(events, 10);
    StepMeasurement m;
    trace.mean_into(m);
    EXPECT_EQ(m.traced_seconds, 9);
    EXPECT_EQ(m.communication_seconds, 0.75);
    ASSERT_EQ(m.kernels.size(), 2U);
    EXPECT_EQ(m.kernels[0].name, "matmul");
    EXPECT_EQ(m.kernels[0].launches, 2);
    EXPECT_EQ(m.kernels[0].seconds, 4);
    EXPECT_EQ(m.kernels[0].flops, 200);
    EXPECT_EQ(m.kernels[0].bytes, 20);
    EXPECT_EQ(m.outside_seconds(), 9 - 0.75 - 4 - 2);
    ASSERT_EQ(m.products.size(), 1U);
    EXPECT_EQ(m.products[0].count, 2);
    EXPECT_EQ(m.products[0].step_seconds, 2);
}

}  // namespace
}  // namespace cleave

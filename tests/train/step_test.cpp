// Whole training steps, on two ranks with accumulation, against plain optimizers written here in f64: accumulation,
// clipping by the global norm, warm-up and cosine, decay by name, several steps. Raw gradients of the reference come
// from one rank and one forward pass over the whole batch (and are judged by tests/model against finite differences).
#include "train/step.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "train/schedule.h"

namespace cleave {
namespace {

using Values = std::map<std::string, std::vector<double>>;

constexpr std::int64_t kBatch = 12;
constexpr std::int64_t kSteps = 7;

Job job_of(OptimizerKind optimizer, Family family) {
    Job job;
    job.model.family = family;
    job.model.layers = 2;
    job.model.heads = 2;
    job.model.width = 8;
    job.model.context = 5;
    job.model.vocabulary = 11;
    job.model.initial_deviation = 0.3;
    job.train.dtype = DType::f64;
    job.train.optimizer = optimizer;
    job.train.batch = kBatch;
    job.train.steps = kSteps;
    job.train.lr = 0.02;
    job.train.min_lr = 0.005;
    job.train.warmup_steps = 3;
    job.train.weight_decay = 0.3;
    job.train.beta1 = 0.8;
    job.train.beta2 = 0.95;
    job.train.epsilon = 1e-6;
    return job;
}

// Rows [first, first + rows) of a step's batch; some labels are masked, unequally.
Samples rows_of(const Job& job, std::int64_t step, std::int64_t first, std::int64_t rows) {
    const RandomStream random(3, "rows", static_cast<std::uint64_t>(step));
    const auto words = static_cast<std::uint64_t>(job.model.vocabulary);
    Samples samples;
    for (std::int64_t i = first * job.model.context; i < (first + rows) * job.model.context; ++i) {
        const auto at = static_cast<std::uint64_t>(2 * i);
        samples.tokens.push_back(static_cast<std::int32_t>(random.below(at, words)));
        samples.labels.push_back(i % 7 == 2 && i / job.model.context < 4
                                     ? static_cast<std::int32_t>(kIgnoredLabel)
                                     : static_cast<std::int32_t>(random.below(at + 1, words)));
    }
    return samples;
}

std::vector<double> values_of(const Tensor& tensor) {
    const auto* data = tensor.view().as<double>();
    return {data, data + tensor.view().elements()};
}

void on_ranks(int ranks, const Job& job, const std::function<void(CpuEngine&, Transformer&, TrainStep&)>& body) {
    const Mesh mesh({{"pp", 1}, {"dp", ranks}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        model.initialize(5);
        TrainStep step(engine, model, job);
        body(engine, model, step);
    });
}

// --- The plain reference.

// Norms and biases by their Hugging Face names, all others decay.
bool decays(const std::string& name) {
    const bool bias = name.ends_with(".bias");
    const bool norm = name.find("ln_") != std::string::npos || name.find("norm") != std::string::npos;
    return !bias && !norm;
}

double rate_of(const Job::Train& t, std::int64_t step) {  // counted from 1
    if (step <= t.warmup_steps) return t.lr * static_cast<double>(step) / static_cast<double>(t.warmup_steps);
    const double turn =
        std::numbers::pi * static_cast<double>(step - t.warmup_steps) / static_cast<double>(t.steps - t.warmup_steps);
    return t.min_lr + (t.lr - t.min_lr) * (1 + std::cos(turn)) / 2;
}

struct Reference {
    Values parameters, m, v;
    std::vector<double> norms, losses;
    Values history;  // parameters after each step, by "<step> <name>"
};

void plain_update(const Job::Train& t, std::int64_t step, const Values& gradients, Reference& state) {
    double squares = 0;
    for (const auto& [name, gradient] : gradients)
        for (double g : gradient) squares += g * g;
    const double norm = std::sqrt(squares);
    state.norms.push_back(norm);
    const double scale = t.clip > 0 && norm > t.clip ? t.clip / (norm + 1e-6) : 1;
    const double rate = rate_of(t, step);
    for (auto& [name, parameter] : state.parameters) {
        const double decay = decays(name) ? t.weight_decay : 0;
        auto& m = state.m[name];
        auto& v = state.v[name];
        m.resize(parameter.size());
        v.resize(parameter.size());
        for (std::size_t i = 0; i < parameter.size(); ++i) {
            const double g = scale * gradients.at(name)[i];
            parameter[i] -= rate * decay * parameter[i];
            if (t.optimizer == OptimizerKind::sgd) {
                parameter[i] -= rate * g;
                continue;
            }
            m[i] = t.beta1 * m[i] + (1 - t.beta1) * g;
            v[i] = t.beta2 * v[i] + (1 - t.beta2) * g * g;
            const double mean = m[i] / (1 - std::pow(t.beta1, static_cast<double>(step)));
            const double square = v[i] / (1 - std::pow(t.beta2, static_cast<double>(step)));
            parameter[i] -= rate * mean / (std::sqrt(square) + t.epsilon);
        }
        state.history[std::to_string(step) + " " + name] = parameter;
    }
}

Reference reference_of(const Job& job) {
    Reference state;
    on_ranks(1, job, [&](CpuEngine& engine, Transformer& model, TrainStep& step) {
        for (Parameter* p : model.parameters()) state.parameters[p->name] = values_of(p->master);
        for (std::int64_t s = 1; s <= kSteps; ++s) {
            for (Parameter* p : model.parameters())
                engine.write(p->master, std::as_bytes(std::span(state.parameters.at(p->name))));
            state.losses.push_back(step.accumulate_gradients({rows_of(job, s, 0, kBatch)}));
            Values gradients;
            for (Parameter* p : model.parameters()) gradients[p->name] = values_of(step.gradients().reduced(*p));
            plain_update(job.train, s, gradients, state);
        }
    });
    return state;
}

class TrainStepTest : public testing::TestWithParam<std::tuple<OptimizerKind, Family, bool>> {};

TEST_P(TrainStepTest, EqualsAPlainOptimizerOverSeveralSteps) {
    const auto [optimizer, family, clipped] = GetParam();
    Job job = job_of(optimizer, family);
    job.train.clip = 0;
    Reference reference = reference_of(job);
    if (clipped) {  // some steps are clipped, others are not
        std::vector<double> norms = reference.norms;
        std::sort(norms.begin(), norms.end());
        const double clip = norms[norms.size() / 2] * 1.01;
        job.train.clip = clip;
        reference = reference_of(job);
        EXPECT_GT(*std::max_element(reference.norms.begin(), reference.norms.end()), clip);
        EXPECT_LT(*std::min_element(reference.norms.begin(), reference.norms.end()), clip);
    }
    on_ranks(2, job, [&](CpuEngine& engine, Transformer& model, TrainStep& step) {
        for (std::int64_t s = 1; s <= kSteps; ++s) {
            std::vector<Samples> own;
            for (std::int64_t m = 0; m < 3; ++m) own.push_back(rows_of(job, s, engine.rank() * 6 + m * 2, 2));
            const StepResult result = step.run(own, s, learning_rate(job.train, s - 1));
            const auto at = static_cast<std::size_t>(s - 1);
            EXPECT_NEAR(result.loss, reference.losses[at], 1e-11) << "step " << s;
            EXPECT_NEAR(result.gradient_norm, reference.norms[at], 1e-10) << "step " << s;
            for (const Parameter* p : model.parameters()) {
                const auto& expected = reference.history.at(std::to_string(s) + " " + p->name);
                const auto found = values_of(p->master);
                for (std::size_t i = 0; i < expected.size(); ++i)
                    ASSERT_NEAR(found[i], expected[i], 1e-9) << p->name << "[" << i << "] after step " << s;
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TrainStepTest,
                         testing::Combine(testing::Values(OptimizerKind::sgd, OptimizerKind::adamw),
                                          testing::Values(Family::gpt2, Family::llama), testing::Bool()),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param) == OptimizerKind::sgd ? "Sgd" : "AdamW") +
                                    (std::get<1>(info.param) == Family::gpt2 ? "Gpt2" : "Llama") +
                                    (std::get<2>(info.param) ? "Clipped" : "Unclipped");
                         });

TEST(TrainStep, CountsTheLabelsOfTheWholeBatchThatAreNotMasked) {
    const Job job = job_of(OptimizerKind::sgd, Family::gpt2);
    const Samples whole = rows_of(job, 1, 0, kBatch);
    const auto expected =
        std::count_if(whole.labels.begin(), whole.labels.end(), [](auto label) { return label != kIgnoredLabel; });
    ASSERT_LT(expected, static_cast<std::ptrdiff_t>(whole.labels.size()));
    on_ranks(2, job, [&](CpuEngine& engine, Transformer&, TrainStep& step) {
        EXPECT_EQ(step.run({rows_of(job, 1, engine.rank() * 6, 6)}, 1, 0.1).tokens, expected);
    });
}

TEST(TrainStep, ABatchWithoutLabelsIsAUserErrorThatNamesTheStep) {
    const Job job = job_of(OptimizerKind::sgd, Family::gpt2);
    Samples masked = rows_of(job, 1, 0, 6);
    masked.labels.assign(masked.labels.size(), static_cast<std::int32_t>(kIgnoredLabel));
    try {
        on_ranks(2, job, [&](CpuEngine&, Transformer&, TrainStep& step) { step.run({masked}, 41, 0.1); });
        FAIL() << "nothing was thrown";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("step 41: every label"));
    }
}

// Nothing may be updated, on any rank, where one rank's loss or gradient is not finite.
TEST(TrainStep, WhatIsNotFiniteOnOneRankStopsAllBeforeAnUpdate) {
    const Job job = job_of(OptimizerKind::adamw, Family::gpt2);
    std::mutex mutex;
    int stopped = 0;
    on_ranks(2, job, [&](CpuEngine& engine, Transformer& model, TrainStep& step) {
        auto* table = model.parameters()[1]->master.view().as<double>();  // positions
        const double kept = table[0];
        if (engine.rank() == 1) table[0] = std::numeric_limits<double>::quiet_NaN();
        std::vector<std::vector<double>> before;
        for (Parameter* p : model.parameters()) before.push_back(values_of(p->master));
        try {
            step.run({rows_of(job, 1, engine.rank() * 6, 6)}, 9, 0.1);
        } catch (const RunError& error) {
            EXPECT_THAT(error.what(), testing::ContainsRegex("step 9: the loss is nan: nothing was updated"));
            const std::lock_guard lock(mutex);
            ++stopped;
        }
        for (std::size_t i = 0; i < before.size(); ++i) {
            if (i == 1) continue;
            EXPECT_EQ(values_of(model.parameters()[i]->master), before[i]);
        }
        table[0] = kept;
    });
    EXPECT_EQ(stopped, 2);
}

// One rank's infinite gradient skips the step on both; the optimizer's count leaves it out, so that what follows is
// what a run without that step would have done.
TEST(TrainStep, AStepThatIsNotFiniteIsSkippedByAllRanksTogether) {
    Job job = job_of(OptimizerKind::adamw, Family::llama);
    job.train.skip_nonfinite = 2;
    on_ranks(2, job, [&](CpuEngine& engine, Transformer& model, TrainStep& step) {
        TrainStep& skipping = step;
        auto broken_step = [&](std::int64_t s) {
            double& weight = *model.parameters()[0]->master.view().as<double>();
            const double kept = weight;
            if (engine.rank() == 1) weight = std::numeric_limits<double>::infinity();
            const StepResult result = skipping.run({rows_of(job, s, engine.rank() * 6, 6)}, s, 0.1);
            weight = kept;
            return result;
        };
        for (std::int64_t s = 1; s <= 2; ++s) EXPECT_TRUE(broken_step(s).skipped);
        EXPECT_EQ(skipping.skipped_steps(), 2);
        EXPECT_FALSE(skipping.run({rows_of(job, 3, engine.rank() * 6, 6)}, 3, 0.01).skipped);
        const Values found = [&] {
            Values values;
            for (Parameter* p : model.parameters()) values[p->name] = values_of(p->master);
            return values;
        }();
        model.initialize(5);
        TrainStep fresh(engine, model, job);
        fresh.run({rows_of(job, 3, engine.rank() * 6, 6)}, 1, 0.01);
        for (Parameter* p : model.parameters()) EXPECT_EQ(values_of(p->master), found.at(p->name)) << p->name;

        for (std::int64_t s = 4; s <= 5; ++s) EXPECT_TRUE(broken_step(s).skipped) << "the row begins anew";
        EXPECT_THROW(broken_step(6), RunError);
    });
}

}  // namespace
}  // namespace cleave

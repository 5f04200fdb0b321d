// Schedules as they really run (train/schedule_measure.h), small.
#include "train/schedule_measure.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "parallel/schedule_check.h"
#include "parallel/schedule_kinds.h"
#include "train/schedule_sweep_plot.h"

namespace cleave::schedule_measure {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

PipelineSchedule made(std::string_view kind, int stages, int microbatches, int chunks = 0) {
    ScheduleOptions options;
    options.kind = kind;
    options.stages = stages;
    options.microbatches = microbatches;
    options.chunks = chunks;
    return make_schedule(options);
}

ScheduleMeasureOptions small(DType dtype = DType::f64) {
    ScheduleMeasureOptions options;
    options.model = {.layers = 8, .width = 24, .batch = 48, .dtype = dtype};
    options.warmup = 1;
    options.steps = 3;
    return options;
}

TEST(ScheduleMeasure, GradientsOfEveryKindAreThoseOfOneRank) {
    for (const ScheduleKind& kind : schedule_kinds()) {
        const ScheduleMeasurement m = measure_schedule(made(kind.name, 4, 8), [] {
            ScheduleMeasureOptions options = small();
            options.steps = 1;
            return options;
        }());
        EXPECT_LT(m.gradient_difference, 1e-12) << kind.name;
        EXPECT_NEAR(m.loss, std::log(24.0), 1) << kind.name;  // of 24 classes
    }
}

// Whatever the number of microbatches: they are parts of one batch.
TEST(ScheduleMeasure, MicrobatchesArePartsOfOneBatch) {
    const MlpConfig model = small().model;
    const MlpGradients one = mlp_gradients(made("1f1b", 2, 1), model);
    const MlpGradients six = mlp_gradients(made("1f1b", 2, 6), model);
    ASSERT_EQ(one.of_layer.size(), 8U);
    EXPECT_NEAR(one.loss, six.loss, 1e-12);
    for (std::size_t layer = 0; layer < 8; ++layer) {
        double norm = 0;
        for (std::size_t i = 0; i < one.of_layer[layer].size(); ++i) {
            ASSERT_NEAR(one.of_layer[layer][i], six.of_layer[layer][i], 1e-14) << layer;
            norm += one.of_layer[layer][i] * one.of_layer[layer][i];
        }
        EXPECT_GT(norm, 1e-6) << layer;
    }
}

// As many classes as the model is wide, and the mean over the batch.
TEST(ScheduleMeasure, LossOfANewModelIsThatOfAGuess) {
    MlpConfig model = small().model;
    model.width = 256;
    const MlpGradients gradients = mlp_gradients(made("gpipe", 2, 2), model);
    EXPECT_NEAR(gradients.loss, std::log(256.0), 0.3);
    MlpConfig other = model;
    other.seed = 2;
    EXPECT_NE(mlp_gradients(made("gpipe", 2, 2), other).loss, gradients.loss);
}

TEST(ScheduleMeasure, TheSplitOfAStageAddsUpToTheStep) {
    for (const std::string_view kind : {"1f1b", "zbv"}) {
        const PipelineSchedule schedule = made(kind, 3, 6);
        const ScheduleMeasurement m = measure_schedule(schedule, small());
        ASSERT_EQ(m.steps.size(), 3U);
        EXPECT_THAT(m.steps, testing::Contains(m.step));
        EXPECT_EQ(std::count_if(m.steps.begin(), m.steps.end(), [&](double s) { return s < m.step; }), 1);
        ASSERT_EQ(m.stages.size(), 3U);
        for (const StageSplit& stage : m.stages) {
            EXPECT_NEAR(stage.compute + stage.bubble + stage.transfer + stage.overhead, m.step, 1e-9 * m.step);
            EXPECT_GT(stage.compute, 0);
            EXPECT_GT(stage.bubble, 0);  // a pipeline of three has one
            EXPECT_GE(stage.transfer, -1e-6);
            EXPECT_GT(stage.overhead, 0);
            EXPECT_LT(stage.compute, m.step);
        }
        EXPECT_GT(m.busy(), 0);
        EXPECT_LT(m.busy(), 1);
    }
}

TEST(ScheduleMeasure, ActionsThatAreNoComputingAreCounted) {
    const PipelineSchedule schedule = made("1f1b", 3, 6);
    const ScheduleMeasurement m = measure_schedule(schedule, small());
    // F and B of each microbatch; a send and a receive of it on each side.
    EXPECT_EQ(m.stages[0].actions, 6 * 4);
    EXPECT_EQ(m.stages[1].actions, 6 * 6);
    EXPECT_EQ(m.stages[2].actions, 6 * 4);
}

// Every action once, in the order of the list, none before what it needs has ended.
TEST(ScheduleMeasure, TheTimelineIsOneOfTheSchedule) {
    for (const std::string_view kind : {"1f1b", "interleaved", "zb-h2"}) {
        const PipelineSchedule schedule = made(kind, 2, 4);
        const ScheduleMeasurement m = measure_schedule(schedule, small());
        ASSERT_EQ(m.timeline.size(), 2U);
        std::map<std::pair<std::size_t, bool>, double> ends;  // by cell; forward or gradient
        for (std::size_t s = 0; s < 2; ++s) {
            Schedule computing = schedule.of_stage[s];
            std::erase_if(computing, [](const ScheduleAction& a) { return !is_compute(a.type); });
            ASSERT_EQ(m.timeline[s].size(), computing.size()) << kind;
            double before = 0;
            for (std::size_t i = 0; i < computing.size(); ++i) {
                const auto& [action, start, end] = m.timeline[s][i];
                EXPECT_EQ(action, computing[i]);
                EXPECT_GE(start, before);
                EXPECT_GE(end, start);
                before = end;
                const int v = schedule.virtual_stage_of(static_cast<int>(s), action.chunk);
                if (action.type != ActionType::weight_gradient)
                    ends[{cell_of(schedule, v, action.microbatch), action.type == ActionType::forward}] = end;
            }
            EXPECT_LE(before, m.step);
        }
        for (std::size_t s = 0; s < 2; ++s)
            for (const auto& [action, start, end] : m.timeline[s]) {
                const int v = schedule.virtual_stage_of(static_cast<int>(s), action.chunk);
                const bool forward = action.type == ActionType::forward;
                const int needs = forward ? v - 1 : v + 1;
                if (action.type == ActionType::weight_gradient || needs < 0 || needs >= schedule.virtual_stages())
                    continue;
                const double ready = ends.at({cell_of(schedule, needs, action.microbatch), forward});
                EXPECT_GE(start, ready) << kind << " " << text_of(action) << " of stage " << s;
            }
    }
}

TEST(ScheduleMeasure, MeansOfWhatRuns) {
    const ScheduleMeasurement whole = measure_schedule(made("1f1b", 2, 4), small());
    EXPECT_GT(whole.durations.forward, 0);
    EXPECT_EQ(whole.durations.input_gradient, whole.durations.weight_gradient);  // halves of one figure
    double backward = 0;
    double count = 0;
    ScheduleMeasureOptions once = small();
    once.steps = 1;
    const ScheduleMeasurement one = measure_schedule(made("1f1b", 2, 4), once);
    for (const auto& stage : one.timeline)
        for (const TimedAction& timed : stage)
            if (timed.action.type == ActionType::backward) backward += timed.end - timed.start, ++count;
    EXPECT_NEAR(one.durations.backward(), backward / count, 1e-9 * backward);
    const ScheduleMeasurement split = measure_schedule(made("zb-h1", 2, 4), small());
    EXPECT_GT(split.durations.input_gradient, 0);
    EXPECT_GT(split.durations.weight_gradient, 0);
    EXPECT_NE(split.durations.input_gradient, split.durations.weight_gradient);
}

// What performing a list costs. On a quiet machine it is a few microseconds (asked for: under 20); a loaded one may
// take the core away whenever another stage is woken, therefore the best of some medians and a bound that is far off.
TEST(ScheduleMeasure, AnActionCostsMicroseconds) {
    ScheduleMeasureOptions options = small(DType::f32);
    options.steps = 15;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) least = std::min(least, measure_schedule(made("1f1b", 2, 16), options).overhead_us);
    fmt::print("overhead of an action: {:.2f} us\n", least);
    EXPECT_GT(least, 0);
    EXPECT_LT(least, 200);
}

TEST(ScheduleMeasure, FormulasAreWhatTheSimulationGives) {
    const ScheduleDurations durations{2, 1.5, 3, 0, 0};
    const auto simulated = [&](const PipelineSchedule& schedule) {
        return figures_of(schedule, durations, simulate(schedule, durations)).step.of_total;
    };
    for (const std::string_view kind : {"naive", "gpipe", "1f1b", "interleaved"})
        for (const int p : {1, 2, 3, 4, 7})
            for (const int m : {1, 2, 4, 6, 8, 21}) {
                for (const int chunks : {2, 3}) {
                    if (kind != "interleaved" && chunks == 3) continue;
                    const PipelineSchedule schedule = made(kind, p, m, kind == "interleaved" ? chunks : 0);
                    const auto formula = bubble_formula(schedule);
                    ASSERT_EQ(formula.has_value(), kind != "interleaved" || m % p == 0);
                    if (formula) {
                        EXPECT_NEAR(*formula, simulated(schedule), 1e-12) << kind << " p=" << p << " m=" << m;
                    }
                }
            }
    EXPECT_FALSE(bubble_formula(made("zb-h1", 4, 8)));
}

TEST(ScheduleMeasure, ModelsThatDoNotFitAreNamedTogether) {
    const PipelineSchedule schedule = made("interleaved", 4, 8, 3);
    EXPECT_THAT(problems_of(schedule, {.layers = 12, .width = 8, .batch = 16}), IsEmpty());
    const auto problems = problems_of(schedule, {.layers = 11, .width = 8, .batch = 20});
    ASSERT_EQ(problems.size(), 2U);
    EXPECT_THAT(problems[0].text, HasSubstr("found 11, but the pipeline has 12 virtual stages"));
    EXPECT_THAT(problems[1].text, HasSubstr("found 20, which 8 microbatches do not divide; accepted: multiples of 8"));
}

TEST(ScheduleMeasure, APlotOfASweep) {
    const SweepPoint points[] = {{1, 40, 0.2, 0.25, 0.25}, {2, 30, 0.38, 0.4, 0.4}, {4, 35, 0.55, 0.57, 0.57}};
    const std::string svg = sweep_plot("1f1b <p=4", points);
    EXPECT_THAT(svg,
                testing::AllOf(HasSubstr("1f1b &lt;p=4"), HasSubstr(">measured</text>"), HasSubstr(">formula</text>"),
                               HasSubstr("busy share"), HasSubstr("time of a step")));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    const SweepPoint alone[] = {{8, 40, 0.2, 0.25, {}}};
    const std::string one = sweep_plot("zbv", alone);
    EXPECT_THAT(one, Not(HasSubstr("formula")));
    EXPECT_THAT(one, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace cleave::schedule_measure

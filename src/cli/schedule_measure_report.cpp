#include "cli/schedule_measure_report.h"

#include <algorithm>

#include "base/words.h"
#include "parallel/schedule_picture.h"
#include "train/schedule_svg.h"
#include "train/schedule_sweep_plot.h"
#include "train/schedule_trace.h"

namespace cleave::cli {
namespace {

std::string percent(double share) {
    return fmt::format("{:.1f} %", 100 * share);
}

double share_of(const MeasuredSchedule& run, std::size_t stage) {
    return run.measured.stages[stage].compute / run.measured.step;
}

std::string means_text(const MeasuredSchedule& run) {
    const ScheduleDurations& d = run.measured.durations;
    const auto splits = [&](const Schedule& list) {
        return std::any_of(list.begin(), list.end(),
                           [](const ScheduleAction& a) { return a.type == ActionType::input_gradient; });
    };
    const bool split = std::any_of(run.schedule.of_stage.begin(), run.schedule.of_stage.end(), splits);
    return split ? fmt::format("forward {:.3f}, input gradient {:.3f}, weight gradient {:.3f} ms", d.forward,
                               d.input_gradient, d.weight_gradient)
                 : fmt::format("forward {:.3f}, backward {:.3f} ms", d.forward, d.backward());
}

// How it was run, and what that means for the figures.
std::string conditions_text(const MeasuredSchedule& run) {
    const ScheduleMeasurement& m = run.measured;
    const MlpConfig& model = run.options.model;
    std::string text = fmt::format("{} of {} x {}, batch {}, {}; {} of {}, on {}\n", counted(model.layers, "layer"),
                                   model.width, model.width, model.batch, name_of(model.dtype),
                                   counted(m.ranks, "rank"), counted(m.team, "thread"), counted(m.cores, "core"));
    if (m.shares_cores())
        text +=
            "more threads than cores: computing shares cores and takes longer where more stages\n"
            "compute, so that the busy shares below are not those of the pipeline alone\n";
    return text + fmt::format(
                      "{} first, not counted: in the first ones the libraries make what they\n"
                      "keep, stage after stage, which is no property of the schedule\n",
                      counted(run.options.warmup, "warm-up step"));
}

// So that the longer one fits, but no action of the mean's length is lost.
double slot_for(const MeasuredSchedule& run, int columns) {
    const ScheduleDurations& d = run.measured.durations;
    const double least = std::min({d.forward, d.input_gradient, d.weight_gradient});
    return std::clamp(std::max(run.figures.total, run.measured.step) / columns, least / 4, least);
}

std::string pictures_text(const MeasuredSchedule& run, int columns) {
    const double slot = slot_for(run, columns);
    const SchedulePicture predicted = draw_schedule(run.schedule, slot, run.predicted, columns);
    const SchedulePicture measured = draw_schedule(run.schedule, slot, run.measured.timeline, columns);
    std::string text =
        fmt::format("\npredicted: simulated with the measured means, {}\n{}", means_text(run), predicted.rows);
    text += fmt::format("\nmeasured: the median of {}\n{}\n{}", counted(run.measured.steps.size(), "step"),
                        measured.rows, measured.legend);
    text += fmt::format("a column is {:.3g} ms\n", slot);
    if (predicted.shown < predicted.slots || measured.shown < measured.slots)
        text += "cut to the width; --svg draws all\n";
    return text;
}

std::string comparison_text(const MeasuredSchedule& run) {
    const ScheduleMeasurement& m = run.measured;
    const auto row = [](std::string_view what, const std::string& predicted, const std::string& measured,
                        const std::string& formula) {
        return fmt::format("{:<22} {:>12} {:>12} {:>12}\n", what, predicted, measured, formula);
    };
    const auto formula = [&](bool busy) { return run.formula ? percent(busy ? 1 - *run.formula : *run.formula) : "-"; };
    std::string text = fmt::format("\n{:<22} {:>12} {:>12} {:>12}\n", "", "predicted", "measured", "formula");
    text += row("step time", fmt::format("{:.3f} ms", run.figures.total), fmt::format("{:.3f} ms", m.step), "");
    text += row("not busy, of total", percent(run.figures.step.of_total), percent(1 - m.busy()), formula(false));
    text += row("busy, all stages", percent(run.predicted_busy()), percent(m.busy()), formula(true));
    for (std::size_t s = 0; s < m.stages.size(); ++s)
        text += row(fmt::format("busy, stage {}", s), percent(run.figures.busy[s] / run.figures.total),
                    percent(share_of(run, s)), formula(true));
    return text;
}

std::string split_text(const MeasuredSchedule& run) {
    const ScheduleMeasurement& m = run.measured;
    std::string text = fmt::format("\n{:<10} {:>11} {:>11} {:>11} {:>11} {:>9} {:>11}\n", "ms of stage", "compute",
                                   "bubble", "transfer", "overhead", "actions", "us / action");
    for (std::size_t s = 0; s < m.stages.size(); ++s) {
        const StageSplit& stage = m.stages[s];
        text += fmt::format("{:<11} {:>11.3f} {:>11.3f} {:>11.3f} {:>11.3f} {:>9} {:>11.2f}\n", s, stage.compute,
                            stage.bubble, stage.transfer, stage.overhead, stage.actions,
                            1e3 * stage.overhead / std::max(stage.actions, 1));
    }
    return text +
           "bubble: waiting with nothing to move, and before the first and after the last action;\n"
           "transfer: copying messages; overhead: the rest, what performing the list costs\n";
}

Json settings_json(const MeasuredSchedule& run) {
    const MlpConfig& model = run.options.model;
    return Json{{"layers", model.layers},
                {"width", model.width},
                {"batch", model.batch},
                {"dtype", name_of(model.dtype)},
                {"ranks", run.measured.ranks},
                {"threads_a_rank", run.measured.team},
                {"cores", run.measured.cores},
                {"shares_cores", run.measured.shares_cores()},
                {"warmup_steps", run.options.warmup}};
}

Json timeline_json(const Timeline& timeline) {
    Json stages = Json::array();
    for (const auto& stage : timeline) {
        Json actions = Json::array();
        for (const auto& [action, start, end] : stage)
            actions.push(Json{{"action", text_of(action)}, {"start_ms", start}, {"end_ms", end}});
        stages.push(std::move(actions));
    }
    return stages;
}

}  // namespace

MeasuredSchedule with_prediction(PipelineSchedule schedule, const ScheduleMeasureOptions& options,
                                 ScheduleMeasurement measured, bool by_formula) {
    MeasuredSchedule run{std::move(schedule), options, std::move(measured), {}, {}, {}};
    run.predicted = simulate(run.schedule, run.measured.durations);
    run.figures = figures_of(run.schedule, run.measured.durations, run.predicted);
    if (by_formula) run.formula = bubble_formula(run.schedule);
    return run;
}

std::string measured_report(const MeasuredSchedule& run, int columns) {
    const ScheduleMeasurement& m = run.measured;
    const auto [least, most] = std::minmax_element(m.steps.begin(), m.steps.end());
    std::string text = fmt::format(
        "{}, measured: {}, {}, {} a stage\n", run.schedule.name, counted(run.schedule.stages, "stage"),
        counted(run.schedule.microbatches, "microbatch", "microbatches"), counted(run.schedule.chunks, "chunk"));
    text += conditions_text(run) + pictures_text(run, columns) + comparison_text(run) + split_text(run);
    text += fmt::format("\noverhead of an action  {:.2f} us (median over {} and all stages)\n", m.overhead_us,
                        counted(m.steps.size(), "step"));
    text += fmt::format("step times             {:.3f} to {:.3f} ms\n", *least, *most);
    return text + fmt::format("gradients              those of one rank, within {:.1e} of a layer's norm\n",
                              m.gradient_difference);
}

Json measured_document(const MeasuredSchedule& run) {
    const ScheduleMeasurement& m = run.measured;
    Json stages = Json::array();
    for (std::size_t s = 0; s < m.stages.size(); ++s)
        stages.push(Json{{"busy_measured", share_of(run, s)},
                         {"busy_predicted", run.figures.busy[s] / run.figures.total},
                         {"compute_ms", m.stages[s].compute},
                         {"bubble_ms", m.stages[s].bubble},
                         {"transfer_ms", m.stages[s].transfer},
                         {"overhead_ms", m.stages[s].overhead},
                         {"actions", m.stages[s].actions}});
    Json steps = Json::array();
    for (const double step : m.steps) steps.push(step);
    Json document{{"name", run.schedule.name},
                  {"stages", run.schedule.stages},
                  {"microbatches", run.schedule.microbatches},
                  {"chunks", run.schedule.chunks},
                  {"measured_with", settings_json(run)},
                  {"durations_ms", Json{{"forward", m.durations.forward},
                                        {"backward", m.durations.backward()},
                                        {"input_gradient", m.durations.input_gradient},
                                        {"weight_gradient", m.durations.weight_gradient}}},
                  {"step_ms_measured", m.step},
                  {"step_ms_predicted", run.figures.total},
                  {"busy_measured", m.busy()},
                  {"busy_predicted", run.predicted_busy()}};
    document.set("busy_formula", run.formula ? Json(1 - *run.formula) : Json());
    document.set("step_ms", std::move(steps));
    document.set("overhead_us_an_action", m.overhead_us);
    document.set("gradient_difference", m.gradient_difference);
    document.set("loss", m.loss);
    document.set("of_stage", std::move(stages));
    document.set("timeline_measured", timeline_json(m.timeline));
    document.set("timeline_predicted", timeline_json(run.predicted));
    return document;
}

std::string measured_svg(const MeasuredSchedule& run) {
    const ScheduleMeasurement& m = run.measured;
    const auto title = [&](std::string_view what) {
        return fmt::format("{}, {}: {}, {}", run.schedule.name, what, counted(run.schedule.stages, "stage"),
                           counted(run.schedule.microbatches, "microbatch", "microbatches"));
    };
    const auto line = [](double step, double busy) {
        return fmt::format("one step: {:.3f} ms; busy {:.1f} % of total time", step, 100 * busy);
    };
    const std::string formula = run.formula ? fmt::format("; by the formula {:.1f} %", 100 * (1 - *run.formula)) : "";
    const SchedulePanel panels[] = {
        {title("predicted"),
         {line(run.figures.total, run.predicted_busy()) + formula, "measured means: " + means_text(run)},
         run.predicted,
         run.figures.total},
        {title("measured"),
         {line(m.step, m.busy()), fmt::format("{} of {} on {}{}", counted(m.ranks, "rank"), counted(m.team, "thread"),
                                              counted(m.cores, "core"), m.shares_cores() ? ", which they share" : "")},
         m.timeline,
         m.step}};
    return schedule_svg(run.schedule, panels, "ms");
}

std::string measured_trace(const MeasuredSchedule& run) {
    const TracedTimeline timelines[] = {{run.schedule.name + ", predicted", run.predicted},
                                        {run.schedule.name + ", measured", run.measured.timeline}};
    return schedule_trace(timelines);
}

std::string sweep_report(const std::vector<MeasuredSchedule>& runs, const std::vector<std::string>& left_out) {
    std::string text;
    if (!runs.empty()) {
        const MeasuredSchedule& any = runs.front();
        text =
            fmt::format("{}, measured: {}, {} a stage\n{}\n", any.schedule.name, counted(any.schedule.stages, "stage"),
                        counted(any.schedule.chunks, "chunk"), conditions_text(any));
        text += fmt::format("{:>12} {:>12} {:>14} {:>14} {:>14} {:>10}\n", "microbatches", "step, ms", "busy measured",
                            "by formula", "by simulation", "us/action");
    }
    for (const MeasuredSchedule& run : runs)
        text +=
            fmt::format("{:>12} {:>12.3f} {:>14} {:>14} {:>14} {:>10.2f}\n", run.schedule.microbatches,
                        run.measured.step, percent(run.measured.busy()), run.formula ? percent(1 - *run.formula) : "-",
                        percent(run.predicted_busy()), run.measured.overhead_us);
    if (!runs.empty())
        text +=
            "busy: computing over stages times step. The batch is the same in every line: more\n"
            "microbatches are smaller ones, whose products are slower, so that the step time need\n"
            "not fall where the busy share grows\n";
    for (const std::string& line : left_out) text += line + "\n";
    return text;
}

Json sweep_document(const std::vector<MeasuredSchedule>& runs, const std::vector<std::string>& left_out) {
    Json points = Json::array();
    for (const MeasuredSchedule& run : runs) points.push(measured_document(run));
    Json lines = Json::array();
    for (const std::string& line : left_out) lines.push(line);
    return Json{{"sweep", std::move(points)}, {"left_out", std::move(lines)}};
}

std::string sweep_svg(const std::vector<MeasuredSchedule>& runs) {
    std::vector<SweepPoint> points;
    points.reserve(runs.size());
    for (const MeasuredSchedule& run : runs)
        points.push_back({run.schedule.microbatches, run.measured.step, run.measured.busy(), run.predicted_busy(),
                          run.formula ? std::optional(1 - *run.formula) : std::nullopt});
    const PipelineSchedule& any = runs.front().schedule;
    return sweep_plot(fmt::format("{}: {}", any.name, counted(any.stages, "stage")), points);
}

}  // namespace cleave::cli

#include "cli/schedule_report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/words.h"
#include "parallel/schedule_file.h"
#include "parallel/schedule_picture.h"

namespace cleave::cli {
namespace {

std::string bubble_text(const Bubble& bubble) {
    return fmt::format("{:.1f} % of total time, {:.1f} % of useful time", 100 * bubble.of_total,
                       100 * bubble.of_useful);
}

// Of the layers of a whole stage: chunks are parts of them, except where each is a stage's worth of its own direction.
double microbatches_of(const PipelineSchedule& schedule, int held) {
    return schedule.route == Route::mirrored ? held : static_cast<double>(held) / schedule.chunks;
}

std::string durations_text(const PipelineSchedule& schedule, const ScheduleDurations& durations) {
    bool split = false;
    bool whole = false;
    for (const Schedule& list : schedule.of_stage)
        for (const ScheduleAction& action : list) {
            split |= action.type == ActionType::input_gradient;
            whole |= action.type == ActionType::backward;
        }
    std::string text = fmt::format("forward {}", durations.forward);
    if (whole) text += fmt::format(", backward {}", durations.backward());
    if (split)
        text +=
            fmt::format(", input gradient {}, weight gradient {}", durations.input_gradient, durations.weight_gradient);
    text += fmt::format(", message {}", durations.message);
    if (durations.overlapped > 0) text += fmt::format(", a forward and a backward together {}", durations.overlapped);
    return text;
}

std::string picture_text(const SchedulePicture& picture) {
    std::string text = picture.rows + "\n" + picture.legend;
    if (picture.slot != 1) text += fmt::format("a column is {} of time\n", picture.slot);
    if (picture.shown < picture.slots)
        text += fmt::format("cut to the width: the first {} of {} columns; --svg draws all\n", picture.shown,
                            picture.slots);
    return text;
}

// Stages that are alike share a line.
std::string stage_table(const PipelineSchedule& schedule, const ScheduleFigures& figures) {
    const std::vector<int> held = peak_held(schedule);
    std::string text = fmt::format("{:<10} {:>10} {:>10} {:>12} {:>10} {:>14}\n", "stage", "busy", "idle",
                                   "idle inside", "held", "microbatches");
    const auto row = [&](std::size_t s) {
        return fmt::format(" {:>10.6g} {:>10.6g} {:>12.6g} {:>10} {:>14.6g}\n", figures.busy[s],
                           figures.total - figures.busy[s], figures.own_window[s] - figures.busy[s], held[s],
                           microbatches_of(schedule, held[s]));
    };
    for (std::size_t s = 0; s < held.size();) {
        std::size_t end = s + 1;
        while (end < held.size() && row(end) == row(s)) ++end;
        text +=
            fmt::format("{:<10}{}", end == s + 1 ? fmt::format("{}", s) : fmt::format("{} to {}", s, end - 1), row(s));
        s = end;
    }
    return text +
           "idle inside: between the stage's own first and last action. held: activations, the\n"
           "most at a time, in microbatches times chunks; microbatches: of a whole stage\n";
}

}  // namespace

std::string schedule_report(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                            const Timeline& timeline, const ScheduleFigures& figures, int columns) {
    std::string text =
        fmt::format("{}: {}, {}, {} a stage ({})\n{}\n\n", schedule.name, counted(schedule.stages, "stage"),
                    counted(schedule.microbatches, "microbatch", "microbatches"), counted(schedule.chunks, "chunk"),
                    name_of(schedule.route), durations_text(schedule, durations));
    text += picture_text(draw_schedule(schedule, durations, timeline, columns));
    text += fmt::format("\none step               {:.6g}; bubble {}\n", figures.total, bubble_text(figures.step));
    text += fmt::format("repeated, with a norm  every {:.6g}; bubble as of one step (all stages wait for the norm)\n",
                        figures.total);
    text +=
        fmt::format("repeated, without      every {:.6g}; bubble {}\n\n", figures.period, bubble_text(figures.steady));
    text += stage_table(schedule, figures);
    const MessageCount messages = messages_of(schedule);
    text += fmt::format("\nmessages: {}, {}\n", counted(messages.activations, "activation"),
                        counted(messages.gradients, "gradient"));
    text +=
        "check: every action once and after what it needs, every send with its receive, no\n"
        "deadlock without any buffer\n";
    return text;
}

Json schedule_document(const PipelineSchedule& schedule, const ScheduleDurations& durations,
                       const ScheduleFigures& figures) {
    const auto bubble = [](double window, const Bubble& b) {
        return Json{{"time", window}, {"bubble_of_total", b.of_total}, {"bubble_of_useful", b.of_useful}};
    };
    const std::vector<int> held = peak_held(schedule);
    Json stages = Json::array();
    for (std::size_t s = 0; s < held.size(); ++s)
        stages.push(Json{{"busy", figures.busy[s]},
                         {"idle", figures.total - figures.busy[s]},
                         {"idle_inside", figures.own_window[s] - figures.busy[s]},
                         {"held", held[s]},
                         {"held_microbatches", microbatches_of(schedule, held[s])}});
    const MessageCount messages = messages_of(schedule);
    return Json{{"name", schedule.name},
                {"stages", schedule.stages},
                {"microbatches", schedule.microbatches},
                {"chunks", schedule.chunks},
                {"route", name_of(schedule.route)},
                {"durations", Json{{"forward", durations.forward},
                                   {"backward", durations.backward()},
                                   {"input_gradient", durations.input_gradient},
                                   {"weight_gradient", durations.weight_gradient},
                                   {"message", durations.message},
                                   {"overlapped", durations.overlapped}}},
                {"useful", figures.useful},
                {"one_step", bubble(figures.total, figures.step)},
                {"repeated_with_norm", bubble(figures.total, figures.step)},
                {"repeated_without_norm", bubble(figures.period, figures.steady)},
                {"of_stage", std::move(stages)},
                {"messages", Json{{"activations", messages.activations}, {"gradients", messages.gradients}}},
                {"valid", true}};
}

int output_columns() {
    if (const char* given = std::getenv("COLUMNS")) {
        const std::string_view text(given);
        int columns = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), columns);
        if (problem == std::errc() && end == text.data() + text.size() && columns > 0) return columns;
    }
    winsize size{};
    if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) return size.ws_col;
    return 0;
}

}  // namespace cleave::cli

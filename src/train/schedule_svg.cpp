#include "train/schedule_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/words.h"
#include "train/loss_plot.h"
#include "train/xml_text.h"

namespace cleave {
namespace {

constexpr double kLabels = 86;  // left of the rows: the stages' names
constexpr double kHeld = 84;    // right of them: what they hold
constexpr double kTitle = 74;
constexpr double kFooter = 72;  // axis and legend
constexpr double kLeastWidth = 700;

struct Rgb {
    int r, g, b;
};
struct ActionColor {
    ActionType type;
    std::string_view words;
    Rgb dark, light;  // of the first chunk and of the last
};
constexpr std::array<ActionColor, 4> kActionColors = {
    ActionColor{ActionType::forward, "forward", {37, 99, 235}, {173, 205, 254}},
    ActionColor{ActionType::backward, "backward", {21, 128, 61}, {165, 230, 185}},
    ActionColor{ActionType::input_gradient, "input gradient", {15, 118, 110}, {140, 226, 215}},
    ActionColor{ActionType::weight_gradient, "weight gradient", {217, 93, 8}, {254, 205, 158}},
};

// How far the color of a chunk is from the first one's to the last one's.
double shade_of(int chunk, int chunks) {
    return chunks == 1 ? 0 : static_cast<double>(chunk) / (chunks - 1);
}

std::string color_text(const ActionColor& color, double shade) {
    const auto mixed = [shade](int a, int b) { return static_cast<int>(std::lround(a + shade * (b - a))); };
    return fmt::format("#{:02x}{:02x}{:02x}", mixed(color.dark.r, color.light.r), mixed(color.dark.g, color.light.g),
                       mixed(color.dark.b, color.light.b));
}

double shortest_in(const Timeline& timeline, double otherwise) {
    double shortest = otherwise;
    for (const auto& stage : timeline)
        for (const TimedAction& timed : stage)
            if (timed.end > timed.start) shortest = std::min(shortest, timed.end - timed.start);
    return shortest;
}

// Units of time to the picture's units: a readable number in the shortest action while the picture stays below some
// thousand units, and less where there are more actions.
double scale_of(double total, double shortest) {
    constexpr double kComfortable = 1000;
    constexpr double kReadable = 15;
    constexpr double kWide = 4200;
    constexpr double kWidest = 16000;
    const double slots = total / shortest;
    double slot = std::clamp(kComfortable / slots, kReadable, 40.0);
    if (slot * slots > kWide) slot = std::max(kWide / slots, 2.0);
    return std::min(slot, kWidest / slots) / shortest;
}

double row_height(const PipelineSchedule& schedule) {
    return schedule.stages <= 16 ? 28 : schedule.stages <= 40 ? 20 : 14;
}

// One panel, from its own corner on.
class ScheduleDrawing {
  public:
    ScheduleDrawing(const PipelineSchedule& schedule, const SchedulePanel& panel, std::string_view unit, double scale)
        : schedule_(schedule),
          panel_(panel),
          row_(row_height(schedule)),
          scale_(scale),
          right_(kLabels + panel.total * scale_),
          bottom_(kTitle + row_ * schedule.stages),
          runs_(kActionColors.size() * static_cast<std::size_t>(schedule.chunks)) {
        draw_title();
        for (int stage = 0; stage < schedule.stages; ++stage) draw_stage(stage);
        draw_actions();
        draw_axis(unit);
        draw_legend();
    }
    std::string take() { return std::move(out_); }

  private:
    struct Label {
        double x, y;
        int microbatch;
    };
    // The actions of one colour: one path, so that many of them stay small.
    struct Run {
        std::string path;
        std::vector<Label> labels;
    };

    template <class... Args>
    void put(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        out_ += '\n';
    }
    double x(double time) const { return kLabels + time * scale_; }
    double y(int stage) const { return kTitle + row_ * stage; }

    void draw_title() {
        put(R"(<text x="14" y="24" font-size="17" font-weight="600" fill="#0f172a">{}</text>)", xml_text(panel_.title));
        put(R"(<text x="14" y="44" fill="#475569">{}</text>)", xml_text(panel_.lines[0]));
        put(R"(<text x="14" y="61" fill="#475569">{}</text>)", xml_text(panel_.lines[1]));
    }

    void draw_stage(int stage) {
        const double top = y(stage) + 1;
        put(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="#eef2f7"/>)", kLabels, top,
            right_ - kLabels, row_ - 2);
        const double text = y(stage) + row_ / 2 + 4;
        put(R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end" fill="#334155">stage {}</text>)", kLabels - 8, text,
            stage);
        put(R"(<text x="{:.2f}" y="{:.1f}" fill="#64748b">holds {}</text>)", right_ + 8, text,
            held_[static_cast<std::size_t>(stage)]);
        const auto& actions = panel_.timeline[static_cast<std::size_t>(stage)];
        for (std::size_t i = 0; i < actions.size(); ++i) {
            const bool lower = i > 0 && actions[i].start < actions[i - 1].end;  // beside the one before
            const bool upper = i + 1 < actions.size() && actions[i + 1].start < actions[i].end;
            const double height = (row_ - 2) / (lower || upper ? 2 : 1);
            add(actions[i], top + (lower ? height : 0), height);
        }
    }

    void add(const TimedAction& timed, double top, double height) {
        const auto color = static_cast<std::size_t>(timed.action.type);  // the first four are those of the colors
        Run& run =
            runs_[color * static_cast<std::size_t>(schedule_.chunks) + static_cast<std::size_t>(timed.action.chunk)];
        const double left = x(timed.start);
        const double width = x(timed.end) - left;
        const double gap = width >= 6 ? 1 : width * 0.12;
        fmt::format_to(std::back_inserter(run.path), "M{:.1f} {:.1f}h{:.1f}v{:.1f}h{:.1f}z", left, top, width - gap,
                       height, gap - width);
        if (width >= label_width_ && height >= 11)
            run.labels.push_back({left + (width - gap) / 2, top + height / 2 + 4, timed.action.microbatch});
    }

    void draw_actions() {
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            if (runs_[i].path.empty()) continue;
            const ActionColor& color = kActionColors[i / static_cast<std::size_t>(schedule_.chunks)];
            const double shade = shade_of(static_cast<int>(i) % schedule_.chunks, schedule_.chunks);
            put(R"(<path fill="{}" d="{}"/>)", color_text(color, shade), runs_[i].path);
            if (runs_[i].labels.empty()) continue;
            put(R"(<g fill="{}" font-size="10.5" text-anchor="middle">)", shade < 0.5 ? "#ffffff" : "#0f172a");
            for (const Label& label : runs_[i].labels)
                put(R"(<text x="{:.1f}" y="{:.1f}">{}</text>)", label.x, label.y, label.microbatch);
            put("</g>");
        }
    }

    void draw_axis(std::string_view unit) {
        constexpr double kTickDistance = 70;
        const int count = std::max(2, static_cast<int>((right_ - kLabels) / kTickDistance));
        for (const double tick : round_ticks(0, panel_.total, count)) {
            if (tick > panel_.total * (1 + 1e-9)) continue;
            put(R"(<line x1="{0:.2f}" y1="{1:.1f}" x2="{0:.2f}" y2="{2:.1f}" stroke="#94a3b8"/>)", x(tick), bottom_ + 1,
                bottom_ + 6);
            put(R"(<text x="{:.2f}" y="{:.1f}" text-anchor="middle" fill="#64748b">{:.6g}</text>)", x(tick),
                bottom_ + 20, tick);
        }
        put(R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end" fill="#64748b">{}</text>)", kLabels - 8, bottom_ + 20,
            unit);
    }

    void draw_legend() {
        double left = kLabels;
        const double middle = bottom_ + 46;
        const auto entry = [&](const std::vector<std::string>& colors, std::string_view words) {
            for (const std::string& color : colors) {
                put(R"(<rect x="{:.1f}" y="{:.1f}" width="14" height="14" fill="{}"/>)", left, middle - 7, color);
                left += 15;
            }
            put(R"(<text x="{:.1f}" y="{:.1f}" fill="#334155">{}</text>)", left + 5, middle + 4, words);
            left += 5 + 6.6 * static_cast<double>(words.size()) + 16;
        };
        const auto chunks = static_cast<std::size_t>(schedule_.chunks);
        for (std::size_t color = 0; color < kActionColors.size(); ++color) {
            std::vector<std::string> colors;
            for (std::size_t chunk = 0; chunk < chunks; ++chunk)
                if (!runs_[color * chunks + chunk].path.empty() && (chunk < 3 || chunk + 1 == chunks))
                    colors.push_back(
                        color_text(kActionColors[color], shade_of(static_cast<int>(chunk), schedule_.chunks)));
            if (!colors.empty()) entry(colors, kActionColors[color].words);
        }
        entry({"#eef2f7"}, "idle");
        if (chunks > 1)
            put(R"(<text x="{:.1f}" y="{:.1f}" fill="#64748b">light: later chunks</text>)", left, middle + 4);
    }

    const PipelineSchedule& schedule_;
    const SchedulePanel& panel_;
    std::vector<int> held_ = peak_held(schedule_);
    // Of the widest number, so that all actions of a kind have theirs or none has.
    double label_width_ = 6.2 * static_cast<double>(fmt::formatted_size("{}", schedule_.microbatches - 1)) + 2;
    double row_;
    double scale_;
    double right_;
    double bottom_;
    std::vector<Run> runs_;  // by colour and chunk
    std::string out_;
};

}  // namespace

std::string schedule_svg(const PipelineSchedule& schedule, std::span<const SchedulePanel> panels,
                         std::string_view unit) {
    double total = 0;
    for (const SchedulePanel& panel : panels) total = std::max(total, panel.total);
    const double scale = scale_of(total, shortest_in(panels.front().timeline, total));
    const double width = std::max(kLabels + total * scale + kHeld, kLeastWidth);
    const double height = kTitle + row_height(schedule) * schedule.stages + kFooter;
    std::string out = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" )"
        R"(font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<title>{2}</title>
)",
        width, height * static_cast<double>(panels.size()), xml_text(schedule.name));
    for (std::size_t i = 0; i < panels.size(); ++i) {
        const std::string drawing = ScheduleDrawing(schedule, panels[i], unit, scale).take();
        out += i == 0 ? drawing
                      : fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", height * static_cast<double>(i),
                                    drawing);
    }
    return out + "</svg>\n";
}

std::string schedule_svg(const PipelineSchedule& schedule, const Timeline& timeline, const ScheduleFigures& figures) {
    const std::string chunks = schedule.chunks > 1 ? fmt::format(", {} chunks a stage", schedule.chunks) : "";
    const SchedulePanel panel{
        fmt::format("{}: {}, {}{}", schedule.name, counted(schedule.stages, "stage"),
                    counted(schedule.microbatches, "microbatch", "microbatches"), chunks),
        {fmt::format("one step: {:.6g}; bubble {:.1f} % of total time, {:.1f} % of useful time", figures.total,
                     100 * figures.step.of_total, 100 * figures.step.of_useful),
         fmt::format(
             "repeated without a norm over all stages: every {:.6g}; bubble {:.1f} % of total time, {:.1f} % of "
             "useful time",
             figures.period, 100 * figures.steady.of_total, 100 * figures.steady.of_useful)},
        timeline,
        figures.total};
    return schedule_svg(schedule, std::span(&panel, 1), "time");
}

}  // namespace cleave

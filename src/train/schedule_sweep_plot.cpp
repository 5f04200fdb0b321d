#include "train/schedule_sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include "train/loss_plot.h"
#include "train/xml_text.h"

namespace cleave {
namespace {

constexpr double kPlotWidth = 760;
constexpr double kPlotLeft = 70;
constexpr double kPlotRight = 150;  // the curves' names
constexpr double kPlotHeight = 210;
constexpr double kPlotGap = 66;
constexpr double kPlotTop = 74;
constexpr double kNameHeight = 17;

enum class Stroke : std::uint8_t { line, dashes, band };

struct SweepCurve {
    std::string_view name;
    std::string_view color;
    Stroke stroke;
    std::function<std::optional<double>(const SweepPoint&)> value;
};

class SweepDrawing {
  public:
    SweepDrawing(std::string_view title, std::span<const SweepPoint> points) : points_(points) {
        put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
            R"(font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="12">)",
            kPlotWidth, kPlotTop + 2 * kPlotHeight + kPlotGap + 52);
        put(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
        put("<title>{}</title>", xml_text(title));
        put(R"(<text x="14" y="26" font-size="17" font-weight="600" fill="#0f172a">{}</text>)", xml_text(title));
        draw_plot(
            kPlotTop, "busy share, %", 0, 100,
            {{"measured", "#2563eb", Stroke::line, [](const SweepPoint& p) { return 100 * p.busy; }},
             {"formula", "#ea580c", Stroke::dashes,
              [](const SweepPoint& p) { return p.busy_formula ? std::optional(100 * *p.busy_formula) : std::nullopt; }},
             {"simulated", "#94a3b8", Stroke::band, [](const SweepPoint& p) { return 100 * p.busy_simulated; }}});
        double most = 0;
        for (const SweepPoint& point : points) most = std::max(most, point.step_ms);
        draw_plot(kPlotTop + kPlotHeight + kPlotGap, "time of a step, ms", 0, most > 0 ? most : 1,
                  {{"measured", "#2563eb", Stroke::line, [](const SweepPoint& p) { return p.step_ms; }}});
        put("</svg>");
    }
    std::string take() { return std::move(out_); }

  private:
    template <class... Args>
    void put(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        out_ += '\n';
    }

    double x(int microbatches) const {
        const double first = std::log2(points_.front().microbatches);
        const double last = std::log2(points_.back().microbatches);
        const double at = last > first ? (std::log2(microbatches) - first) / (last - first) : 0.5;
        return kPlotLeft + 12 + at * (kPlotWidth - kPlotLeft - kPlotRight - 24);
    }

    void draw_plot(double top, std::string_view what, double low, double high, const std::vector<SweepCurve>& curves) {
        const std::vector<double> ticks = round_ticks(low, high, 5);
        const double bottom = top + kPlotHeight;
        const double right = kPlotWidth - kPlotRight;
        const auto y = [&](double value) {
            return bottom - (value - ticks.front()) / (ticks.back() - ticks.front()) * kPlotHeight;
        };
        put(R"(<text x="14" y="{:.1f}" fill="#475569">{}</text>)", top - 14, what);
        for (const double tick : ticks) {
            put(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", kPlotLeft, y(tick), right,
                y(tick), tick == ticks.front() ? "#94a3b8" : "#e8edf3");
            put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end" fill="#64748b">{:.6g}</text>)", kPlotLeft - 8,
                y(tick) + 4, tick);
        }
        for (const SweepPoint& point : points_)
            put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#64748b">{}</text>)", x(point.microbatches),
                bottom + 18, point.microbatches);
        put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#475569">microbatches</text>)",
            (kPlotLeft + right) / 2, bottom + 36);
        std::vector<std::pair<double, const SweepCurve*>> names;
        for (auto curve = curves.rbegin(); curve != curves.rend(); ++curve)
            if (const auto end = draw_curve(*curve, y)) names.emplace_back(y(*end), &*curve);
        draw_names(names, bottom);
    }

    // Its last value, if there is any. A band stands behind the line that hides it.
    std::optional<double> draw_curve(const SweepCurve& curve, const std::function<double(double)>& y) {
        std::string line;
        std::optional<double> last;
        for (const SweepPoint& point : points_)
            if (const auto value = curve.value(point)) {
                fmt::format_to(std::back_inserter(line), "{:.1f},{:.1f} ", x(point.microbatches), y(*value));
                if (curve.stroke == Stroke::line)
                    put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"/>)", x(point.microbatches), y(*value),
                        curve.color);
                last = value;
            }
        if (last)
            put(R"(<polyline points="{}" fill="none" stroke="{}" stroke-linecap="round" {}/>)", line, curve.color,
                curve.stroke == Stroke::band     ? R"(stroke-width="6" stroke-opacity="0.4")"
                : curve.stroke == Stroke::dashes ? R"(stroke-width="2" stroke-dasharray="5 5")"
                                                 : R"(stroke-width="2")");
        return last;
    }

    // At the curves' ends, moved apart where they would overlap.
    void draw_names(std::vector<std::pair<double, const SweepCurve*>>& names, double bottom) {
        std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (std::size_t i = 1; i < names.size(); ++i)
            names[i].first = std::max(names[i].first, names[i - 1].first + kNameHeight);
        const double below = names.empty() ? 0 : std::max(0.0, names.back().first - bottom);
        for (const auto& [y, curve] : names)
            put(R"(<text x="{:.1f}" y="{:.1f}" fill="{}" font-weight="600">{}</text>)",
                x(points_.back().microbatches) + 20, y - below + 4, curve->color, curve->name);
    }

    std::span<const SweepPoint> points_;
    std::string out_;
};

}  // namespace

std::string sweep_plot(std::string_view title, std::span<const SweepPoint> points) {
    return SweepDrawing(title, points).take();
}

}  // namespace cleave

#include "train/loss_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/utf8.h"
#include "train/xml_text.h"

namespace cleave {
namespace {

// In the picture's units.
constexpr double kWidth = 860;
constexpr double kHeight = 480;
constexpr double kLeft = 64;
constexpr double kRight = 150;  // room for the names at the curves' ends
constexpr double kTop = 64;
constexpr double kBottom = 56;
constexpr double kLineHeight = 18;
constexpr int kTitleColumns = 44;         // as many of the widest letters as fit
constexpr std::size_t kMostPoints = 600;  // of a curve: more than the picture has pixels helps nobody

struct Point {
    double step;
    double loss;
};

struct Curve {
    std::string_view field;
    std::string_view name;
    std::string_view color;
    bool evaluation;  // drawn with a dot at each point; the others are a thin line behind
    std::vector<Point> points;
};

struct Axes {
    std::vector<double> step_ticks;
    std::vector<double> loss_ticks;

    static double scale(double value, const std::vector<double>& ticks, double from, double to) {
        return from + (value - ticks.front()) / (ticks.back() - ticks.front()) * (to - from);
    }
    double x(double step) const { return scale(step, step_ticks, kLeft, kWidth - kRight); }
    double y(double loss) const { return scale(loss, loss_ticks, kHeight - kBottom, kTop); }
};

// Means of neighbours, so that no more than kMostPoints are left.
std::vector<Point> thinned(const std::vector<Point>& points) {
    const std::size_t group = (points.size() + kMostPoints - 1) / kMostPoints;
    if (group <= 1) return points;
    std::vector<Point> means;
    for (std::size_t first = 0; first < points.size(); first += group) {
        const std::size_t count = std::min(group, points.size() - first);
        Point mean{0, 0};
        for (std::size_t i = first; i < first + count; ++i) {
            mean.step += points[i].step / static_cast<double>(count);
            mean.loss += points[i].loss / static_cast<double>(count);
        }
        means.push_back(mean);
    }
    return means;
}

std::vector<Curve> curves_of(const std::vector<Json>& metrics) {
    std::vector<Curve> curves = {{"loss", "each step", "#b9c6d8", false, {}},
                                 {"train_loss", "train", "#2563eb", true, {}},
                                 {"validation_loss", "validation", "#ea580c", true, {}}};
    for (Curve& curve : curves) {
        for (const Json& line : metrics) {
            const Json* step = line.find("step");
            const Json* loss = line.find(curve.field);
            if (step != nullptr && step->is_number() && loss != nullptr && loss->is_number())
                curve.points.push_back({step->number(), loss->number()});
        }
        if (!curve.evaluation) curve.points = thinned(curve.points);
    }
    std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
    return curves;
}

// Steps are whole: a short run has a tick at each.
std::vector<double> step_ticks(double last) {
    constexpr int kMost = 7;
    if (last > kMost) return round_ticks(0, last, kMost);
    std::vector<double> ticks = {0};
    while (ticks.back() < last) ticks.push_back(ticks.back() + 1);
    return ticks;
}

Axes axes_of(const std::vector<Curve>& curves) {
    double last_step = 1;
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (const Curve& curve : curves) {
        for (const Point& point : curve.points) {
            last_step = std::max(last_step, point.step);
            low = std::min(low, point.loss);
            high = std::max(high, point.loss);
        }
    }
    if (low > high) low = 0, high = 1;
    if (high - low < 1e-9) high = low + 1;
    return {step_ticks(last_step), round_ticks(low, high, 6)};
}

// Digits behind the point that show multiples of `step`, 1, 2 or 5 times a power of ten.
int decimals_of(double step) {
    return std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
}

// At most `room` columns wide: the middle of a longer text is left out. Characters outside of the western scripts count
// two.
std::string shortened(std::string_view text, int room) {
    std::vector<std::pair<std::string_view, int>> characters;
    int width = 0;
    for (std::size_t at = 0; at < text.size(); at += characters.back().first.size()) {
        const Utf8Step step = utf8_step(text, at);
        characters.emplace_back(text.substr(at, step.length), step.code_point < 0x1100 ? 1 : 2);
        width += characters.back().second;
    }
    if (width <= room) return std::string(text);
    std::string begin, end;
    int left = room - 1;
    for (std::size_t i = 0, j = characters.size(); left > 0 && i < j;) {
        const bool front = begin.size() <= end.size();
        const auto& [character, columns] = front ? characters[i++] : characters[--j];
        left -= columns;
        if (left < 0) break;
        if (front)
            begin += character;
        else
            end.insert(0, character);
    }
    return begin + "…" + end;
}

class Picture {
  public:
    Picture(std::string_view title, const std::vector<Curve>& curves) : curves_(curves), axes_(axes_of(curves)) {
        put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
            R"(font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="13">)",
            kWidth, kHeight);
        put(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
        put("<title>{}</title>", xml_text(title));
        put(R"(<text x="{}" y="32" font-size="18" font-weight="600" fill="#0f172a">{}</text>)", kLeft,
            xml_text(shortened(title, kTitleColumns)));
        draw_axes();
        for (const Curve& curve : curves_) draw_curve(curve);
        draw_names();
        put("</svg>");
    }
    const std::string& text() const { return out_; }

  private:
    template <class... Args>
    void put(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        out_ += '\n';
    }

    void draw_axes() {
        const int decimals = decimals_of(axes_.loss_ticks[1] - axes_.loss_ticks[0]);
        for (double tick : axes_.loss_ticks) {
            const double y = axes_.y(tick);
            put(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#e8edf3"/>)", kLeft, y,
                kWidth - kRight, y);
            put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end" fill="#64748b">{:.{}f}</text>)", kLeft - 10, y + 4.5,
                tick, decimals);
        }
        for (double tick : axes_.step_ticks)
            put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#64748b">{:.10g}</text>)", axes_.x(tick),
                kHeight - kBottom + 22, tick);
        put(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" stroke="#94a3b8"/>)", kLeft, kWidth - kRight,
            kHeight - kBottom);
        put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#475569">step</text>)",
            (kLeft + kWidth - kRight) / 2, kHeight - 12);
        put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end" fill="#475569">loss</text>)", kLeft - 10, kTop - 16);
        if (curves_.empty())
            put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#64748b">nothing measured yet</text>)",
                (kLeft + kWidth - kRight) / 2, (kTop + kHeight - kBottom) / 2);
    }

    void draw_curve(const Curve& curve) {
        std::string points;
        for (const Point& point : curve.points)
            fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", axes_.x(point.step), axes_.y(point.loss));
        put(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linejoin="round"/>)", points,
            curve.color, curve.evaluation ? 2.2 : 1.2);
        // A line of one point is none.
        if (!curve.evaluation && curve.points.size() > 1) return;
        for (const Point& point : curve.points)
            put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}" stroke="#ffffff" stroke-width="1"/>)",
                axes_.x(point.step), axes_.y(point.loss), curve.color);
    }

    // The legend: each curve's name and last value at its end, moved apart where they would overlap.
    void draw_names() {
        std::vector<std::pair<double, const Curve*>> names;
        for (const Curve& curve : curves_) names.emplace_back(axes_.y(curve.points.back().loss), &curve);
        std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (std::size_t i = 1; i < names.size(); ++i)
            names[i].first = std::max(names[i].first, names[i - 1].first + kLineHeight);
        const double below = names.empty() ? 0 : names.back().first - (kHeight - kBottom);
        const double x = kWidth - kRight + 12;
        for (const auto& [y, curve] : names) {
            const double shifted = y - std::max(below, 0.0) + 4.5;
            const std::string_view color =
                curve->evaluation ? curve->color : "#7b8ca3";  // a faint line, a readable name
            put(R"(<text x="{:.1f}" y="{:.1f}" fill="{}" font-weight="{}">{} {:.3f}</text>)", x, shifted, color,
                curve->evaluation ? 600 : 400, curve->name, curve->points.back().loss);
        }
    }

    const std::vector<Curve>& curves_;
    Axes axes_;
    std::string out_;
};

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
    const double rough = (high - low) / count;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double digit = rough / power;
    const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
    const auto first = static_cast<std::int64_t>(std::floor(low / step + 1e-9));
    const auto last = static_cast<std::int64_t>(std::ceil(high / step - 1e-9));
    std::vector<double> ticks;
    for (std::int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
    return ticks;
}

std::string loss_plot(std::string_view title, const std::vector<Json>& metrics) {
    return Picture(title, curves_of(metrics)).text();
}

}  // namespace cleave

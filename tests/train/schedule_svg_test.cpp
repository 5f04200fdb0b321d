// Pictures and traces of schedules.
#include "train/schedule_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "parallel/schedule_kinds.h"
#include "train/schedule_trace.h"

namespace cleave::schedules {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Drawn {
    PipelineSchedule schedule;
    Timeline timeline;
    std::string svg;
};

Drawn drawn(const char* kind, int stages, int microbatches, const ScheduleDurations& durations = {}) {
    Drawn d{make_schedule({kind, stages, microbatches, 0, durations}), {}, {}};
    d.timeline = simulate(d.schedule, durations);
    d.svg = schedule_svg(d.schedule, d.timeline, figures_of(d.schedule, durations, d.timeline));
    return d;
}

std::size_t count(const std::string& text, std::string_view part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

// The shapes of all paths: each begins with M.
std::size_t shapes(const std::string& svg) {
    std::size_t n = 0;
    for (std::size_t at = svg.find("<path"); at != std::string::npos; at = svg.find("<path", at + 1))
        n += count(svg.substr(at, svg.find("/>", at) - at), "M");
    return n;
}

TEST(ScheduleSvg, HasEveryActionAStageARowAndALegend) {
    const Drawn d = drawn("1f1b", 4, 8);
    EXPECT_EQ(shapes(d.svg), 4U * 8 * 2);
    EXPECT_EQ(count(d.svg, ">stage "), 4U);
    EXPECT_EQ(count(d.svg, ">7</text>"), 4U * 2);
    EXPECT_THAT(d.svg, AllOf(HasSubstr("bubble 27.3 % of total time, 37.5 % of useful time"), HasSubstr(">forward<"),
                             HasSubstr(">backward<"), HasSubstr(">idle<"), Not(HasSubstr("weight gradient")),
                             HasSubstr(">holds 4<")));
    EXPECT_THAT(drawn("zbv", 4, 8).svg,
                AllOf(HasSubstr(">input gradient<"), HasSubstr(">weight gradient<"), Not(HasSubstr(">backward<")),
                      HasSubstr("light: later chunks"), HasSubstr("every 48; bubble 0.0 % of total time")));
}

// An action begins and ends where its time says.
TEST(ScheduleSvg, PlacesActionsByTheirTimes) {
    const std::string svg = drawn("gpipe", 1, 2, {1, 1, 2}).svg;  // F0 F1 B0 B1: 1 1 3 3 of 8, 40 to a unit
    EXPECT_THAT(svg, HasSubstr("M86.0 75.0h39.0v26.0h-39.0zM126.0 75.0h39.0"));
    EXPECT_THAT(svg, HasSubstr("M166.0 75.0h119.0v26.0h-119.0zM286.0 75.0h119.0"));
}

TEST(ScheduleSvg, NumbersStandWhereAllOfThemFit) {
    EXPECT_EQ(count(drawn("1f1b", 16, 64).svg, ">63</text>"), 2U * 16);
    EXPECT_EQ(count(drawn("interleaved", 16, 64).svg, ">3</text>"),
              count(drawn("interleaved", 16, 64).svg, ">63</text>"));
}

TEST(ScheduleSvg, TwoThatRunTogetherShareARow) {
    const Drawn apart = drawn("dualpipe", 4, 8);
    const Drawn together = drawn("dualpipe", 4, 8, {1, 1, 1, 0, 3});
    EXPECT_EQ(count(apart.svg, "v13.0"), 0U);
    EXPECT_EQ(count(together.svg, "v13.0") % 2, 0U);
    EXPECT_GT(count(together.svg, "v13.0"), 8U);
}

TEST(ScheduleSvg, NamesMayHoldAnything) {
    Drawn d = drawn("1f1b", 1, 1);
    d.schedule.name = "a<b&\x01";
    const std::string svg = schedule_svg(d.schedule, d.timeline, figures_of(d.schedule, {}, d.timeline));
    EXPECT_THAT(svg, AllOf(HasSubstr("a&lt;b&amp;\xEF\xBF\xBD"), Not(HasSubstr("a<b"))));
    d.schedule.name = "a\"b";
    EXPECT_NE(Json::parse(schedule_trace(d.schedule, d.timeline), "trace").find("traceEvents"), nullptr);
}

TEST(ScheduleTrace, HasEveryActionWithItsTime) {
    const Drawn d = drawn("interleaved", 2, 4);
    const Json trace = Json::parse(schedule_trace(d.schedule, d.timeline), "trace");
    std::size_t actions = 0;
    double busy = 0;
    for (const Json& event : *trace.find("traceEvents")->items()) {
        if (*event.find("ph")->string() != "X") continue;
        ++actions;
        busy += event.find("dur")->number();
        if (*event.find("name")->string() == "B0@1" && event.find("tid")->number() == 1) {
            EXPECT_EQ(event.find("ts")->number(), 4000);
            EXPECT_EQ(event.find("dur")->number(), 2000);
            EXPECT_EQ(*event.find("cat")->string(), "backward");
        }
    }
    EXPECT_EQ(actions, 2U * 4 * 2 * 2);
    EXPECT_EQ(busy, 1000.0 * 2 * 4 * 2 * 3);
}

}  // namespace
}  // namespace cleave::schedules

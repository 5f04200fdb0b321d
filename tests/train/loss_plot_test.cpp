#include "train/loss_plot.h"

#include <gmock/gmock.h>

#include "support/pattern.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& pattern) {
    return test::matches(text, pattern).size();
}

// What the plot shows as its title, which is the only text in bold.
std::string shown_title(const std::string& svg) {
    return test::matches(svg, "font-weight=\"600\"[^>]*>([^<]*)</text>").at(0)[1];
}

TEST(RoundTicks, CoverTheRangeInRoundSteps) {
    EXPECT_THAT(round_ticks(0, 2000, 7), ElementsAre(0, 500, 1000, 1500, 2000));
    EXPECT_THAT(round_ticks(1.6, 4.2, 6), ElementsAre(1.5, 2, 2.5, 3, 3.5, 4, 4.5));
    for (double low : {0.0, 0.013, 1.9, 37.0}) {
        for (double span : {1e-6, 0.04, 1.0, 3.7, 12345.0}) {
            const auto ticks = round_ticks(low, low + span, 6);
            EXPECT_LE(ticks.front(), low + 1e-6 * span);
            EXPECT_GE(ticks.back(), low + span * (1 - 1e-6));
            EXPECT_LE(ticks.size(), 9u);
            EXPECT_GE(ticks.size(), 3u);
        }
    }
}

TEST(LossPlot, ShowsEachCurveWithItsLastValue) {
    std::vector<Json> metrics;
    for (int step = 0; step <= 100; ++step) metrics.push_back(Json{{"step", step}, {"loss", 4.0 - step * 0.02}});
    metrics.push_back(Json{{"step", 100}, {"train_loss", 2.125}, {"validation_loss", 2.25}});
    const std::string svg = loss_plot("a run", metrics);
    EXPECT_THAT(svg, HasSubstr(">train 2.125<"));
    EXPECT_THAT(svg, HasSubstr(">validation 2.250<"));
    EXPECT_THAT(svg, HasSubstr(">each step 2.000<"));
    EXPECT_EQ(count(svg, "<polyline"), 3u);
    EXPECT_EQ(count(svg, "<circle"), 2u);
}

TEST(LossPlot, PointsStayInsideThePicture) {
    std::vector<Json> metrics;
    for (int step = 0; step < 50000; ++step) metrics.push_back(Json{{"step", step}, {"loss", step % 977 * 0.37}});
    const std::string svg = loss_plot("long", metrics);
    EXPECT_LT(svg.size(), 20000u);  // thinned
    for (const test::Groups& pair : test::matches(svg, "([-0-9.]+),([-0-9.]+) ")) {
        EXPECT_GE(std::stod(pair[1]), 64.0);
        EXPECT_LE(std::stod(pair[1]), 710.0);
        EXPECT_GE(std::stod(pair[2]), 64.0);
        EXPECT_LE(std::stod(pair[2]), 424.0);
    }
}

TEST(LossPlot, EveryElementIsClosedWhateverTheTitle) {
    const std::string svg = loss_plot("<b> & co", {});
    EXPECT_THAT(svg, HasSubstr("&lt;b> &amp; co"));
    EXPECT_THAT(svg, HasSubstr("nothing measured yet"));
    EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
    EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

TEST(LossPlot, AShortRunHasWholeStepsAndItsOnlyPointIsSeen) {
    const std::string one = loss_plot("x", {Json{{"step", 1}, {"loss", 3.0}}});
    EXPECT_THAT(one, AllOf(HasSubstr(">0</text>"), HasSubstr(">1</text>"), Not(HasSubstr(">0.2</text>"))));
    EXPECT_EQ(count(one, "<circle"), 1u) << "a line of one point is not seen";
    const std::string three = loss_plot("x", {Json{{"step", 1}, {"loss", 3.0}}, Json{{"step", 3}, {"loss", 2.0}}});
    EXPECT_THAT(three, AllOf(HasSubstr(">1</text>"), HasSubstr(">2</text>"), HasSubstr(">3</text>"),
                             Not(HasSubstr(">0.5</text>"))));
    EXPECT_EQ(count(three, "<circle"), 0u);
}

TEST(LossPlot, ALongTitleIsShortenedInItsMiddleAndWholeInTheTooltip) {
    const std::string name = "the_beginning_" + std::string(120, 'W') + "_the_end";
    const std::string svg = loss_plot(name, {});
    EXPECT_THAT(svg, HasSubstr("<title>" + name + "</title>"));
    const std::string shown = shown_title(svg);
    EXPECT_THAT(shown, AllOf(testing::StartsWith("the_beginning_W"), HasSubstr("…"), testing::EndsWith("W_the_end")));
    EXPECT_LE(shown.size(), 44u + 2);  // the dots are three bytes
    // Cut between characters, not bytes; wide ones count two.
    std::string wide;
    for (int i = 0; i < 60; ++i) wide += "海";
    const std::string cut = shown_title(loss_plot(wide, {}));
    EXPECT_THAT(cut, Not(HasSubstr("\uFFFD")));
    EXPECT_LE(cut.size(), 22u * 3);
}

TEST(LossPlot, ATitleThatXmlCannotHoldIsReplaced) {
    const std::string svg = loss_plot(std::string("a\x01"
                                                  "b\xff"
                                                  "c\x1b[31m"),
                                      {});
    EXPECT_THAT(svg, HasSubstr(">a\uFFFDb\uFFFDc\uFFFD[31m<"));
}

TEST(LossPlot, LeavesOutWhatIsNotANumber) {
    const std::string svg = loss_plot("x", {Json{{"step", 0}, {"loss", 1.0}}, Json{{"step", 1}, {"loss", Json()}}});
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, HasSubstr(">each step 1.000<"));
}

}  // namespace
}  // namespace cleave

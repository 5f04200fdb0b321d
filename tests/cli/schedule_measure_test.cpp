// cleave schedule --measure and --sweep, as a user runs them.
#include <gmock/gmock.h>

#include "base/json.h"
#include "cli/program.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ScheduleMeasureCommand : public testing::Test {
  protected:
    Result schedule(std::vector<std::string> words) const {
        words.insert(words.begin(), {CLEAVE_PROGRAM, "schedule"});
        return Program(folder_.path(), words, {}).wait();
    }
    // Small, whatever the schedule.
    Result measure(std::vector<std::string> words) const {
        words.insert(words.end(), {"--measure", "--width", "32", "--batch", "48"});
        return schedule(std::move(words));
    }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    ScratchFolder folder_;
};

TEST_F(ScheduleMeasureCommand, PredictedAndMeasuredSideBySide) {
    const Result result = measure({"1f1b", "--stages", "4", "--microbatches", "8"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("\npredicted: simulated with the measured means, forward"), HasSubstr("\nmeasured: "),
                      HasSubstr("2 warm-up steps first, not counted"), HasSubstr("8 layers of 32 x 32, batch 48"),
                      HasSubstr("busy, stage 3"), HasSubstr("overhead of an action"),
                      HasSubstr("gradients              those of one rank")));
    EXPECT_THAT(result.out, HasSubstr("     72.7 %\n"));  // (p - 1) / (m + p - 1) is 3/11
    EXPECT_THAT(result.err, HasSubstr("measuring 1f1b with 8 microbatches"));
}

TEST_F(ScheduleMeasureCommand, OneDocumentWithAllNumbers) {
    const Result result = measure({"zbv", "--stages", "2", "--microbatches", "4", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json document = Json::parse(result.out, "stdout");
    const double step = document.find("step_ms_measured")->number();
    EXPECT_GT(step, 0);
    EXPECT_TRUE(document.find("busy_formula")->is_null());
    EXPECT_LT(document.find("gradient_difference")->number(1), 1e-3);
    const auto& stages = *document.find("of_stage")->items();
    ASSERT_EQ(stages.size(), 2U);
    double busy = 0;
    for (const Json& stage : stages) {
        const auto of = [&](std::string_view name) { return stage.find(name)->number(); };
        EXPECT_NEAR(of("compute_ms") + of("bubble_ms") + of("transfer_ms") + of("overhead_ms"), step, 1e-6 * step);
        EXPECT_NEAR(of("busy_measured"), of("compute_ms") / step, 1e-9);
        busy += of("busy_measured") / 2;
    }
    EXPECT_NEAR(document.find("busy_measured")->number(), busy, 1e-9);
    EXPECT_EQ(document.find("timeline_measured")->items()->at(0).items()->size(), 4U * 3 * 2);
    EXPECT_EQ(document.find("timeline_predicted")->items()->at(1).items()->size(), 4U * 3 * 2);
}

TEST_F(ScheduleMeasureCommand, BothPicturesInOneFile) {
    const Result result =
        measure({"gpipe", "--stages", "2", "--microbatches", "4", "--svg", path("a.svg"), "--trace", path("a.json")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string svg = read_all(folder_ / "a.svg");
    EXPECT_THAT(svg, AllOf(HasSubstr("gpipe, predicted: 2 stages, 4 microbatches"), HasSubstr("gpipe, measured: "),
                           HasSubstr("by the formula 80.0 %"), HasSubstr(">ms</text>")));
    EXPECT_LT(svg.find("gpipe, predicted"), svg.find("gpipe, measured"));
    const Json trace = Json::parse(read_all(folder_ / "a.json"), "trace");
    int of_process[2] = {};
    for (const Json& event : *trace.find("traceEvents")->items())
        if (*event.find("ph")->string() == "X") ++of_process[event.find("pid")->number() > 0 ? 1 : 0];
    EXPECT_EQ(of_process[0], 16);
    EXPECT_EQ(of_process[1], 16);
}

TEST_F(ScheduleMeasureCommand, AFileRunsToo) {
    write_all(folder_ / "my.txt", "name mine\nstages 2\nmicrobatches 2\nF0 F1 B1 B0\nF0 F1 B1 B0\n");
    const Result result = measure({path("my.txt")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("mine, measured: 2 stages"));
    // Its name is its own, whatever it is called.
    write_all(folder_ / "named.txt", "name 1f1b\nstages 2\nmicrobatches 2\nF0 F1 B1 B0\nF0 F1 B1 B0\n");
    EXPECT_TRUE(Json::parse(measure({path("named.txt"), "--json"}).out, "stdout").find("busy_formula")->is_null());
}

TEST_F(ScheduleMeasureCommand, ASweepIsOneTable) {
    const Result result =
        measure({"1f1b", "--stages", "2", "--microbatches", "6", "--sweep", "--svg", path("sweep.svg")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char* line : {"\n           1 ", "\n           2 ", "\n           4 ", "\n           6 "})
        EXPECT_THAT(result.out, HasSubstr(line));
    EXPECT_THAT(result.out, AllOf(HasSubstr("50.0 %"), HasSubstr("66.7 %"), HasSubstr("80.0 %"), HasSubstr("85.7 %"),
                                  HasSubstr("busy measured")));
    EXPECT_THAT(result.err, HasSubstr("measuring 1f1b with 4 microbatches"));
    EXPECT_THAT(read_all(folder_ / "sweep.svg"), AllOf(HasSubstr("busy share"), HasSubstr("time of a step")));
    const Result json = measure({"1f1b", "--stages", "2", "--microbatches", "2", "--sweep", "--json"});
    const Json document = Json::parse(json.out, "stdout");
    ASSERT_EQ(document.find("sweep")->items()->size(), 2U);
    EXPECT_EQ(document.find("sweep")->items()->at(1).find("busy_formula")->number(), 1 - 1.0 / 3);
}

TEST_F(ScheduleMeasureCommand, ASweepSaysWhatItLeavesOut) {
    const Result result = measure({"dualpipe", "--stages", "2", "--microbatches", "4", "--sweep"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("not measured with 1 microbatch: found 1"));
    EXPECT_THAT(result.out, HasSubstr("\n           4 "));
}

TEST_F(ScheduleMeasureCommand, WrongOptionsAreNamedTogether) {
    const auto refused = [&](const std::vector<std::string>& words) {
        const Result result = schedule(words);
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_THAT(result.out, IsEmpty());
        EXPECT_THAT(result.err, Not(HasSubstr("measuring")));
        return result.err;
    };
    const std::vector<std::string> base = {"1f1b", "--stages", "4", "--microbatches", "6"};
    const auto with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> words = base;
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    EXPECT_THAT(refused(with({"--measure", "--layers", "3", "--batch", "32"})),
                AllOf(HasSubstr("2 problems"), HasSubstr("--layers: found 3, but the pipeline has 4 virtual stages"),
                      HasSubstr("--batch: found 32, which 6 microbatches do not divide")));
    EXPECT_THAT(refused(with({"--measure", "--sweep", "--layers", "3", "--batch", "32"})),
                AllOf(HasSubstr("--layers: found 3"), HasSubstr("--batch: found 32, which 6 microbatches")));
    EXPECT_THAT(refused(with({"--sweep", "--width", "8", "--layers", "4", "--batch", "6"})),
                AllOf(HasSubstr("--sweep: found without --measure"), HasSubstr("--width: found without --measure"),
                      HasSubstr("--layers: found without"), HasSubstr("--batch: found without")));
    EXPECT_THAT(refused(with({"--measure", "--forward", "2", "--message", "1", "--format", "list"})),
                AllOf(HasSubstr("--forward: found with --measure"), HasSubstr("--message: found with --measure"),
                      HasSubstr("--format: found 'list' with --measure")));
    EXPECT_THAT(refused(with({"--measure", "--sweep", "--trace", "a.json"})), HasSubstr("--trace: found with --sweep"));
    EXPECT_THAT(refused({"1f1b", "--stages", "300", "--microbatches", "1", "--measure"}),
                AllOf(HasSubstr("--stages: found 300 with --measure"), HasSubstr("from 1 to 256")));
    write_all(folder_ / "my.txt", "stages 1\nmicrobatches 1\nF0 B0\n");
    EXPECT_THAT(refused({path("my.txt"), "--measure", "--sweep"}), HasSubstr("--sweep: found with a file"));
}

}  // namespace
}  // namespace cleave::test

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/schedule_measuring.h"
#include "cli/schedule_report.h"
#include "parallel/schedule_check.h"
#include "parallel/schedule_file.h"
#include "parallel/schedule_kinds.h"
#include "train/job_check.h"
#include "train/schedule_svg.h"
#include "train/schedule_trace.h"

namespace cleave::cli {
namespace {

constexpr double kUnsetTime = -1;  // no option has it
constexpr double kLeastTime = 1e-3;
constexpr double kMostTime = 1e6;
constexpr std::int64_t kMostOfEach = kMostScheduleCells;

std::string kinds_help() {
    std::string text = "Schedules:\n";
    for (const ScheduleKind& kind : schedule_kinds()) {
        text += fmt::format("  {:<12} {}\n", kind.name, kind.summary);
        if (!kind.alias.empty()) text += fmt::format("  {:<12} also called {}\n", "", kind.alias);
    }
    return text;
}

class ScheduleCommand : public Command {
  public:
    std::string name() const override { return "schedule"; }
    std::string summary() const override { return "check, draw and measure a pipeline schedule"; }
    std::string examples() const override {
        return "  cleave schedule 1f1b --stages 4 --microbatches 8\n"
               "  cleave schedule interleaved --stages 4 --microbatches 8 --chunks 2 --svg out.svg\n"
               "  cleave schedule zb-h2 --stages 4 --microbatches 8 --forward 1 --input-grad 1 --weight-grad 1\n"
               "  cleave schedule 1f1b --stages 2 --microbatches 3 --format list > my.txt\n"
               "  cleave schedule my.txt\n"
               "  cleave schedule 1f1b --stages 4 --microbatches 8 --measure --svg out.svg\n"
               "  cleave schedule 1f1b --stages 4 --microbatches 64 --measure --sweep\n" +
               kinds_help() +
               "A file has the lines 'stages P', 'microbatches M', perhaps 'chunks V', 'route\n"
               "round_robin|vee|mirrored', and a line of actions for each stage: F3 forward of\n"
               "microbatch 3, B3 backward, or I3 and W3, its input and its weight gradients; F3@1\n"
               "in chunk 1. Messages are added unless the file names them: SA, RA an activation's\n"
               "send and receive, SG, RG a gradient's. A file that is wrong is refused (exit\n"
               "code 2) with its first wrong action.";
    }
    void declare(Options& options) override {
        options.positional("KIND|FILE", what_, "a schedule by name, listed below, or a file", true);
        options.integer("--stages", stages_, 1, kMostScheduleStages, "stages of the pipeline");
        options.integer("--microbatches", microbatches_, 1, kMostOfEach, "microbatches of a step");
        options.integer("--chunks", chunks_, 1, kMostOfEach,
                        "chunks of the model a stage holds (interleaved; default: 2)");
        options.section("times of one microbatch through one chunk, in any unit");
        options.number("--forward", forward_, kLeastTime, kMostTime, "a forward (default: 1)");
        options.number("--backward", backward_, kLeastTime, kMostTime,
                       "a backward (default: 2); where the schedule splits it, half of it for each half");
        options.number("--input-grad", input_, kLeastTime, kMostTime, "its input gradient (default: 1)");
        options.number("--weight-grad", weight_, kLeastTime, kMostTime, "its weight gradient (default: 1)");
        options.number("--message", message_, 0, kMostTime, "a message, beside the computing (default: 0)");
        options.number("--overlapped", overlapped_, kLeastTime, kMostTime,
                       "a forward and a backward of the other chunk that run together, in dualpipe and dualpipev "
                       "(default: one after the other)");
        measuring_.declare(options);
        options.section("output");
        options.text("--svg", "FILE", svg_, "write a picture (with --measure both, with --sweep its curves)");
        options.text("--trace", "FILE", trace_, "write a trace for ui.perfetto.dev or chrome://tracing");
        options.text("--format", "NAME", format_,
                     "text: picture, figures and check (default); list: the schedule as a file, to be changed by hand; "
                     "messages: that with its messages");
    }

    int run() override {
        const bool by_name = find_schedule_kind(what_) != nullptr;
        if (!by_name) check_file();
        check_options(by_name);
        check_measuring(by_name);
        throw_problems(problems_);
        if (measuring_.sweeps()) return sweep();
        const ScheduleDurations durations = durations_of();
        const PipelineSchedule schedule = by_name ? made(durations) : read(durations);
        if (measuring_.asked()) return measure(schedule, by_name);
        const Timeline timeline = simulate(schedule, durations);
        const ScheduleFigures figures = figures_of(schedule, durations, timeline);
        if (!svg_.empty()) write_file(svg_, schedule_svg(schedule, timeline, figures));
        if (!trace_.empty()) write_file(trace_, schedule_trace(schedule, timeline));
        if (json)
            print(schedule_document(schedule, durations, figures).dump(2) + "\n");
        else if (format_ == "text")
            print(schedule_report(schedule, durations, timeline, figures, output_columns()));
        else
            print(schedule_text(schedule, format_ == "list" ? ScheduleListing::computing : ScheduleListing::whole));
        return kExitOk;
    }

  private:
    template <class... Args>
    void problem(fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }

    void check_file() const {
        if (std::filesystem::exists(what_)) return;
        std::vector<std::string_view> names;
        for (const ScheduleKind& kind : schedule_kinds()) names.push_back(kind.name);
        const std::string_view near = nearest(what_, names);
        throw UserError("schedule: found '{}', which is no schedule and no file{}; accepted: {}, or a file",
                        shortened(what_), near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                        schedule_kind_names());
    }

    void check_options(bool by_name) {
        if (by_name)
            check_kind();
        else
            for (const auto& [flag, value] :
                 {std::pair{"--stages", stages_}, std::pair{"--microbatches", microbatches_},
                  std::pair{"--chunks", chunks_}})
                if (value != 0) problem("{}: found {}, but the file says it; accepted: none", flag, value);
        if (backward_ != kUnsetTime && (input_ != kUnsetTime || weight_ != kUnsetTime))
            problem("--backward: found with {}, which are its halves; accepted: --backward, or the two halves",
                    input_ != kUnsetTime ? "--input-grad" : "--weight-grad");
        if (overlapped_ != kUnsetTime && what_ != "dualpipe" && what_ != "dualpipev")
            problem("--overlapped: found with '{}'; accepted with dualpipe, dualpipev", shortened(what_));
        if (format_ != "text" && format_ != "list" && format_ != "messages")
            problem("--format: found '{}'; accepted: text, list, messages", shortened(format_));
        else if (json && format_ != "text")
            problem("--format: found '{}' with --json; accepted: one of the two", format_);
    }

    void check_measuring(bool by_name) {
        measuring_.check_alone(problems_);
        if (!measuring_.asked()) return;
        for (const auto& [flag, value] : {std::pair{"--forward", forward_},
                                          {"--backward", backward_},
                                          {"--input-grad", input_},
                                          {"--weight-grad", weight_},
                                          {"--message", message_},
                                          {"--overlapped", overlapped_}})
            if (value != kUnsetTime)
                problem("{}: found with --measure, which measures it; accepted: one of the two", flag);
        if (format_ != "text") problem("--format: found '{}' with --measure; accepted: text, or --json", format_);
        if (measuring_.sweeps() && !by_name)
            problem("--sweep: found with a file, which has one number of microbatches; accepted: {}",
                    schedule_kind_names());
        if (measuring_.sweeps() && !trace_.empty())
            problem("--trace: found with --sweep; accepted: --measure alone, or --sweep with --svg");
        // A sweep looks at each of its schedules.
        if (problems_.empty() && !measuring_.sweeps()) measuring_.check_model(by_name ? made({}) : read({}), problems_);
    }

    int measure(const PipelineSchedule& schedule, bool by_name) const {
        measuring_.run_once(schedule, by_name, {svg_, trace_, json});
        return kExitOk;
    }

    int sweep() const {
        const auto with = [this](int microbatches) {
            ScheduleOptions options = options_of({});
            options.microbatches = microbatches;
            return options;
        };
        const auto refused = [&](int microbatches) {
            const auto problems = problems_of(with(microbatches));
            return problems.empty() ? std::string() : problems.front().text;
        };
        measuring_.run_sweep({[&](int microbatches) { return make_schedule(with(microbatches)); }, refused},
                             static_cast<int>(microbatches_), {svg_, trace_, json});
        return kExitOk;
    }

    void check_kind() {
        if (stages_ == 0) problem("--stages: not given; accepted: an integer from 1");
        if (microbatches_ == 0) problem("--microbatches: not given; accepted: an integer from 1");
        if (stages_ == 0 || microbatches_ == 0) return;
        using Field = ScheduleOptionProblem::Field;
        for (const auto& [field, text] : problems_of(options_of({})))
            problem("{}: {}",
                    field == Field::stages         ? "--stages"
                    : field == Field::microbatches ? "--microbatches"
                    : field == Field::chunks       ? "--chunks"
                                                   : "schedule",
                    text);
    }

    ScheduleOptions options_of(const ScheduleDurations& durations) const {
        return {what_, static_cast<int>(stages_), static_cast<int>(microbatches_), static_cast<int>(chunks_),
                durations};
    }

    ScheduleDurations durations_of() const {
        ScheduleDurations durations;
        const auto set = [](double& target, double value) { target = value == kUnsetTime ? target : value; };
        set(durations.forward, forward_);
        set(durations.input_gradient, backward_ == kUnsetTime ? input_ : backward_ / 2);
        set(durations.weight_gradient, backward_ == kUnsetTime ? weight_ : backward_ / 2);
        set(durations.message, message_);
        set(durations.overlapped, overlapped_);
        return durations;
    }

    PipelineSchedule made(const ScheduleDurations& durations) const {
        PipelineSchedule schedule = make_schedule(options_of(durations));
        const auto wrong = check_schedule(schedule);
        CLEAVE_CHECK(!wrong, "{}: {}", what_, text_of(*wrong));
        return schedule;
    }

    PipelineSchedule read(const ScheduleDurations& durations) const {
        return parse_schedule(read_text_file(what_), what_, durations);
    }

    std::string what_;
    std::int64_t stages_ = 0;
    std::int64_t microbatches_ = 0;
    std::int64_t chunks_ = 0;
    double forward_ = kUnsetTime;
    double backward_ = kUnsetTime;
    double input_ = kUnsetTime;
    double weight_ = kUnsetTime;
    double message_ = kUnsetTime;
    double overlapped_ = kUnsetTime;
    std::string svg_;
    std::string trace_;
    std::string format_ = "text";
    ScheduleMeasuring measuring_;
    std::vector<std::string> problems_;
};

}  // namespace

std::unique_ptr<Command> make_schedule_command() {
    return std::make_unique<ScheduleCommand>();
}

}  // namespace cleave::cli

#include "parallel/schedule_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "base/words.h"
#include "parallel/schedule_kinds.h"
#include "parallel/schedule_messages.h"

namespace cleave {
namespace {

constexpr std::array<std::string_view, 3> kRoutes = {"round_robin", "vee", "mirrored"};
constexpr std::array<std::string_view, 5> kHeaderWords = {"name", "stages", "microbatches", "chunks", "route"};
constexpr std::size_t kMostProblems = 10;

struct Word {
    std::string_view text;
    int column;  // from 1, in bytes
};

std::vector<Word> words_in(std::string_view line) {
    std::vector<Word> words;
    line = line.substr(0, line.find('#'));
    for (std::size_t at = 0; at < line.size();) {
        const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
        while (at < line.size() && space(line[at])) ++at;
        const std::size_t begin = at;
        while (at < line.size() && !space(line[at])) ++at;
        if (at > begin) words.push_back({line.substr(begin, at - begin), static_cast<int>(begin) + 1});
    }
    return words;
}

// A number that stands at the beginning of `text`, which loses it.
std::optional<int> leading_number(std::string_view& text) {
    int value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || value < 0 || text.front() == '-') return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

std::optional<ScheduleAction> action_in(std::string_view text) {
    for (const ActionType type : {ActionType::reduce, ActionType::optimizer})
        if (text == letters_of(type)) return ScheduleAction{type, -1, 0, false};
    const std::size_t letters = std::min(text.size(), text.find_first_of("0123456789"));
    for (int i = 0; i < static_cast<int>(ActionType::reduce); ++i) {
        const auto type = static_cast<ActionType>(i);
        if (text.substr(0, letters) != letters_of(type)) continue;
        text.remove_prefix(letters);
        const auto microbatch = leading_number(text);
        if (!microbatch) return std::nullopt;
        if (text.empty()) return ScheduleAction{type, *microbatch, 0, false};
        if (text.front() != '@') return std::nullopt;
        text.remove_prefix(1);
        const auto chunk = leading_number(text);
        if (!chunk || !text.empty()) return std::nullopt;
        return ScheduleAction{type, *microbatch, *chunk, false};
    }
    return std::nullopt;
}

class ScheduleParser {
  public:
    ScheduleParser(std::string_view text, std::string_view source) : source_(source) {
        while (!text.empty()) {
            ++line_;
            const std::size_t end = std::min(text.size(), text.find('\n'));
            read_line(text.substr(0, end));
            text.remove_prefix(std::min(text.size(), end + 1));
        }
        check_header();
        if (!problems_.empty()) throw UserError(problems_);
    }

    PipelineSchedule take() { return std::move(schedule_); }
    bool names_messages() const { return messages_; }

    [[noreturn]] void fail(const ScheduleProblem& problem) const {
        const auto s = static_cast<std::size_t>(problem.stage);
        // What was added, or is missing, is told at the end of its line.
        const auto& columns = columns_[s];
        const int column = problem.position < columns.size() ? columns[problem.position] : columns.back();
        throw UserError("{}:{}:{}: {}", source_, lines_[s], column, text_of(problem));
    }

  private:
    template <class... Args>
    void problem(int line, int column, fmt::format_string<Args...> format, Args&&... args) {
        if (found_++ >= kMostProblems) return;
        const std::string text = fmt::format(format, std::forward<Args>(args)...);
        problems_ += fmt::format("{}{}:{}:{}: {}", problems_.empty() ? "" : "\n", source_, line, column, text);
        if (found_ == kMostProblems) problems_ += "\nand perhaps more";
    }

    void read_line(std::string_view line) {
        const std::vector<Word> words = words_in(line);
        if (words.empty()) return;
        const auto header = std::find(kHeaderWords.begin(), kHeaderWords.end(), words[0].text);
        if (header != kHeaderWords.end()) return read_header(*header, words, line);
        if (!action_in(words[0].text)) {
            const std::string_view near = nearest(words[0].text, kHeaderWords);
            const std::string hint = near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
            return problem(line_, words[0].column, "found '{}'{}; accepted: {}, or actions such as F0 B0 I1 W1 F2@1",
                           shortened(std::string(words[0].text)), hint, "name, stages, microbatches, chunks, route");
        }
        read_actions(words);
    }

    void read_header(std::string_view name, const std::vector<Word>& words, std::string_view line) {
        const auto which =
            static_cast<std::size_t>(std::find(kHeaderWords.begin(), kHeaderWords.end(), name) - kHeaderWords.begin());
        if (!lines_.empty()) return problem(line_, 1, "'{}' stands behind the stages; accepted: before them", name);
        if (given_[which]) return problem(line_, words[0].column, "'{}' stands a second time; accepted: once", name);
        given_[which] = true;
        if (name == "name") return read_name(words, line);
        if (words.size() != 2)
            return problem(line_, words[0].column, "'{}' has {} behind it; accepted: one", name,
                           counted(words.size() - 1, "word"));
        if (name == "route") return read_route(words[1]);
        std::string_view rest = words[1].text;
        const auto value = leading_number(rest);
        if (!value || !rest.empty() || *value < 1)
            return problem(line_, words[1].column, "{}: found '{}'; accepted: an integer from 1", name,
                           shortened(std::string(words[1].text)));
        (name == "stages" ? schedule_.stages : name == "chunks" ? schedule_.chunks : schedule_.microbatches) = *value;
    }

    void read_name(const std::vector<Word>& words, std::string_view line) {
        if (words.size() < 2) return problem(line_, words[0].column, "'name' has no word behind it; accepted: a name");
        const auto begin = static_cast<std::size_t>(words[1].column - 1);
        const auto end = static_cast<std::size_t>(words.back().column - 1) + words.back().text.size();
        schedule_.name = std::string(line.substr(begin, end - begin));
        if (!is_utf8(schedule_.name)) problem(line_, words[1].column, "the name is no UTF-8; accepted: UTF-8");
    }

    void read_route(const Word& word) {
        const auto found = std::find(kRoutes.begin(), kRoutes.end(), word.text);
        if (found == kRoutes.end())
            return problem(line_, word.column, "route: found '{}'; accepted: round_robin, vee, mirrored",
                           shortened(std::string(word.text)));
        schedule_.route = static_cast<Route>(found - kRoutes.begin());
    }

    void read_actions(const std::vector<Word>& words) {
        Schedule& list = schedule_.of_stage.emplace_back();
        lines_.push_back(line_);
        std::vector<int>& columns = columns_.emplace_back();
        for (const Word& word : words) {
            const auto action = action_in(word.text);
            if (!action) {
                problem(
                    line_, word.column,
                    "found '{}'; accepted: F, B, I, W, SA, RA, SG or RG with a microbatch (F0, in chunk 1 F0@1), R, O",
                    shortened(std::string(word.text)));
                continue;
            }
            messages_ |= is_message(action->type);
            list.push_back(*action);
            columns.push_back(word.column);
        }
    }

    void check_header() {
        const int end = std::max(1, line_);
        for (const std::size_t which : {std::size_t{1}, std::size_t{2}})
            if (!given_[which])
                problem(end, 1, "there is no line '{}'; accepted: one before the stages", kHeaderWords[which]);
        if (schedule_.route != Route::round_robin && !given_[3]) schedule_.chunks = 2;
        if (schedule_.route != Route::round_robin && schedule_.chunks != 2)
            problem(end, 1, "chunks: found {}; accepted with the route {}: 2", schedule_.chunks,
                    name_of(schedule_.route));
        if (schedule_.route == Route::mirrored && schedule_.microbatches % 2 != 0)
            problem(end, 1, "microbatches: found {}; accepted with the route mirrored: even numbers",
                    schedule_.microbatches);
        if (given_[1] && schedule_.of_stage.size() != static_cast<std::size_t>(schedule_.stages))
            problem(end, 1, "found {} of actions; accepted: {}, one for each stage",
                    counted(schedule_.of_stage.size(), "line"), schedule_.stages);
        const std::int64_t most = kMostScheduleCells;
        if (schedule_.stages > kMostScheduleStages)
            problem(end, 1, "stages: found {}; accepted: from 1 to {}", schedule_.stages, kMostScheduleStages);
        else if (schedule_.chunks > most ||
                 std::int64_t{schedule_.stages} * schedule_.chunks > most / schedule_.microbatches)
            problem(end, 1, "found {} stages, {} chunks, {} microbatches; accepted: at most {}, multiplied",
                    schedule_.stages, schedule_.chunks, schedule_.microbatches, most);
    }

    std::string source_;
    PipelineSchedule schedule_;
    std::array<bool, kHeaderWords.size()> given_{};
    int line_ = 0;
    bool messages_ = false;
    std::vector<int> lines_;                 // of each stage
    std::vector<std::vector<int>> columns_;  // of each action
    std::string problems_;
    std::size_t found_ = 0;
};

}  // namespace

PipelineSchedule parse_schedule(std::string_view text, std::string_view source, const ScheduleDurations& durations) {
    ScheduleParser parser(text, source);
    PipelineSchedule schedule = parser.take();
    if (schedule.name.empty()) schedule.name = std::string(source);
    if (const auto problem = check_order(schedule)) parser.fail(*problem);
    if (!parser.names_messages()) add_messages(schedule, durations);
    finish_step(schedule);
    if (const auto problem = check_schedule(schedule)) parser.fail(*problem);
    return schedule;
}

std::string schedule_text(const PipelineSchedule& schedule, ScheduleListing listing) {
    std::string name = schedule.name;  // a file's path may hold anything
    for (char& c : name)
        if (c == '#' || static_cast<unsigned char>(c) < ' ') c = '_';
    std::string text = fmt::format("name {}\nstages {}\nmicrobatches {}\nchunks {}\nroute {}\n", name, schedule.stages,
                                   schedule.microbatches, schedule.chunks, name_of(schedule.route));
    for (const Schedule& list : schedule.of_stage) {
        bool first = true;
        for (const ScheduleAction& action : list) {
            if (listing == ScheduleListing::computing && !is_compute(action.type)) continue;
            if (!first) text += ' ';
            text += text_of(action);
            first = false;
        }
        text += '\n';
    }
    return text;
}

std::string_view name_of(Route route) {
    return kRoutes[static_cast<std::size_t>(route)];
}

}  // namespace cleave

// The only file that includes CLI11, which is heavy.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/output.h"
#include "base/stop.h"
#include "base/wrap.h"
#include "cli/command.h"
#include "comm/launch.h"

namespace cleave::cli {
namespace {

class CliOptions : public Options {
  public:
    explicit CliOptions(CLI::App& app) : app_(app) {}

    void positional(const std::string& name, std::string& target, const std::string& help, bool required) override {
        app_.add_option(name, target, help)->required(required)->option_text(" ");
    }
    void positionals(const std::string& name, std::vector<std::string>& target, const std::string& help) override {
        app_.add_option(name, target, help)->option_text(" ");
    }
    void section(const std::string& title) override { section_ = title; }
    void text(const std::string& flag, const std::string& placeholder, std::string& target,
              const std::string& help) override {
        placed(app_.add_option(flag, target, help))->option_text(placeholder);
    }
    void texts(const std::string& flag, const std::string& placeholder, std::vector<std::string>& target,
               const std::string& help) override {
        placed(app_.add_option(flag, target, help))->option_text(placeholder)->expected(1)->take_all();
    }
    void integer(const std::string& flag, std::int64_t& target, std::int64_t least, std::int64_t most,
                 const std::string& help) override {
        add_number(flag, target, least, most, help, "an integer");
    }
    void number(const std::string& flag, double& target, double least, double most, const std::string& help) override {
        add_number(flag, target, least, most, help, "a number");
    }
    void flag(const std::string& flag, bool& target, const std::string& help) override {
        placed(app_.add_flag(flag, target, help));
    }
    void exclusive(const std::string& flag, const std::string& other) override {
        CLI::Option* option = app_.get_option(other);
        app_.get_option(flag)->excludes(option)->option_text(" ");
        option->option_text(" ");
    }

  private:
    template <class Number>
    void add_number(const std::string& flag, Number& target, Number least, Number most, const std::string& help,
                    std::string_view kind) {
        const std::string words = fmt::format("{} from {} to {}", kind, least, most);
        const auto parse = [&target, least, most, flag, words](const std::string& text) {
            Number value{};
            const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool whole = problem == std::errc() && end == text.data() + text.size();
            if (!whole || !(value >= least && value <= most))
                throw UserError("{}: found '{}'; accepted: {}", flag, text, words);
            target = value;
        };
        placed(app_.add_option_function<std::string>(flag, parse, help))->option_text("N");
    }
    CLI::Option* placed(CLI::Option* option) const { return section_.empty() ? option : option->group(section_); }

    CLI::App& app_;
    std::string section_;
};

// CLI11's help says "TEXT ... REQUIRED" and "SUBCOMMANDS"; these are the words of the rest of Cleave.
class HelpText : public CLI::Formatter {
  public:
    HelpText() {
        column_width(kIndent);
        label("SUBCOMMAND", "COMMAND");
        label("Positionals", "Arguments");
    }
    std::string make_usage(const CLI::App* app, std::string name) const override {
        std::string usage = CLI::Formatter::make_usage(app, std::move(name));
        const auto end = usage.find_last_not_of('\n');
        return usage.substr(0, end == std::string::npos ? 0 : end + 1) + "\n";
    }
    // CLI11 itself puts the lines after a line break under each other.
    std::string make_option_desc(const CLI::Option* option) const override {
        return wrapped(CLI::Formatter::make_option_desc(option), "", kColumns - kIndent);
    }

  private:
    static constexpr std::size_t kColumns = 80;
    static constexpr std::size_t kIndent = 32;
};

// Under mpirun the processes of other ranks meet most failures alike, and rank 0 speaks for all: the launcher ends the
// others as soon as it has ended. One that still runs after a while has met this failure alone.
bool another_speaks(const comm::ProcessPlace& place) {
    constexpr int kPatience = 20;
    for (int i = 0; place.rank != 0 && i < kPatience; ++i) {
        if (stop_requested()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
}

void fail(std::string_view message, int exit_code, bool json) {
    const comm::ProcessPlace place = comm::process_place();
    if (exit_code != kExitRankFailure && another_speaks(place)) return;
    std::fflush(stdout);
    const std::string rank = place.count > 1 ? fmt::format(" (rank {})", place.rank) : "";
    std::fprintf(stderr, "error%s: %.*s\n", rank.c_str(), static_cast<int>(message.size()), message.data());
    if (!json || place.rank != 0) return;
    try {
        print(Json{{"error", message}, {"exit_code", exit_code}}.dump(2) + "\n");
    } catch (const UserError&) {  // standard output is what failed; the message has been said
    }
}

// The one place where a failure becomes an exit code.
int guarded(bool json, const std::function<int()>& body) {
    const auto failed = [&](const std::exception& error, int exit_code) {
        fail(printable(error.what()), exit_code, json);
        return exit_code;
    };
    try {
        return body();
    } catch (const UserError& error) {
        return failed(error, kExitUserError);
    } catch (const RunError& error) {
        return failed(error, kExitNo);
    } catch (const RankFailure& error) {
        return failed(error, kExitRankFailure);
    } catch (const std::filesystem::filesystem_error& error) {
        return failed(UserError("cannot use '{}': {}", error.path1().string(), error.code().message()), kExitUserError);
    } catch (const std::system_error& error) {  // of std::filesystem, threads, and fmt's writes to standard output
        const bool output = std::ferror(stdout) != 0;
        return failed(UserError("{}", output ? "cannot write the result to standard output" : error.what()),
                      kExitUserError);
    } catch (const std::bad_alloc&) {
        return failed(UserError("this machine has not enough memory for it"), kExitUserError);
    }
}

// CLI11 says "the following argument was not expected: trian".
std::string explain(const CLI::ParseError& error, const CLI::App& app, const std::vector<std::string>& arguments) {
    std::vector<std::string_view> names;
    for (const CLI::App* command : app.get_subcommands({})) names.emplace_back(command->get_name());
    const bool no_command = app.get_subcommands().empty();
    if (no_command && !arguments.empty() && arguments.front().front() != '-') {
        const auto near = nearest(arguments.front(), names);
        return fmt::format("there is no command '{}'{}; `cleave --help` lists all commands", arguments.front(),
                           near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
    }
    if (no_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
        return "no command is given; `cleave --help` lists all commands";
    if (no_command) return fmt::format("{}; `cleave --help` lists all commands", error.what());
    std::string text = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
        text = fmt::format(
            "{} {}", text.substr(0, text.find(':')),
            text.find("At Most") == std::string::npos ? "needs a value" : "is given more than once; accepted: once");
    for (const std::string& argument : arguments) {
        if (text.find("not expected") == std::string::npos || argument.size() < 3 || !argument.starts_with("--"))
            continue;
        std::vector<std::string_view> flags;
        std::vector<std::string> storage;
        for (const CLI::Option* option : app.get_subcommands().front()->get_options())
            for (const std::string& name : option->get_lnames()) storage.push_back("--" + name);
        flags.assign(storage.begin(), storage.end());
        const std::string word = argument.substr(0, argument.find('='));
        if (std::find(flags.begin(), flags.end(), word) != flags.end()) continue;
        const auto near = nearest(word, flags);
        text =
            fmt::format("there is no option {}{}", word, near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
        break;
    }
    return fmt::format("{}; `cleave {} --help` explains the command", text, app.get_subcommands().front()->get_name());
}

// Under mpirun a command that has no ranks would run once in every process, side by side.
void check_processes(const Command& command) {
    const int processes = comm::process_place().count;
    if (processes == 1 || command.runs_on_ranks()) return;
    throw UserError("`cleave {}` runs in one process, but mpirun has started {}; accepted: the same without mpirun",
                    command.name(), processes);
}

// What a command wrote in pieces must have reached standard output too.
int finished(int exit_code) {
    print("");
    return exit_code;
}

}  // namespace

int run_program(int argc, const char* const* argv, const std::vector<std::unique_ptr<Command>>& commands) {
    CLI::App app("Cleave trains language models that are split over many ranks and behave as one.", "cleave");
    app.formatter(std::make_shared<HelpText>());
    app.set_version_flag("--version", std::string("cleave ") + CLEAVE_VERSION, "show the version");
    app.set_help_flag("-h,--help", "show this text");
    app.require_subcommand(1);
    app.footer(
        "`cleave COMMAND --help` explains a command. Exit codes: 0 done, 1 the answer is\n"
        "no, 2 wrong input, 3 a rank failed, 130 stopped by Ctrl-C: train with a\n"
        "checkpoint (a second Ctrl-C: at once, without one), the others at once.");
    for (const auto& command : commands) {
        CLI::App* sub = app.add_subcommand(command->name(), command->summary());
        sub->group("Commands")->set_help_flag("-h,--help", "show this text");
        CliOptions options(*sub);
        command->declare(options);
        sub->add_flag("--json", command->json, "print the result as one JSON document on standard output");
        sub->footer("Examples:\n" + command->examples());
    }
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
    return guarded(json, [&] {
        try {
            app.parse(argc, argv);
        } catch (const CLI::Success& help) {  // --help, --version
            app.exit(help);
            print("");
            return 0;
        } catch (const CLI::ParseError& error) {
            throw UserError("{}", explain(error, app, arguments));
        }
        for (const auto& command : commands) {
            if (!app.got_subcommand(command->name())) continue;
            check_processes(*command);
            return finished(command->run());
        }
        broken_invariant(__FILE__, __LINE__, "a command", "CLI11 accepted none");
    });
}

}  // namespace cleave::cli

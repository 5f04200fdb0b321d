// A command of the program: its name, its help, its options, and what it does. Options are declared in our own words;
// CLI11, which parses them, is included in command_line.cpp alone.
// Thread rule: the main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/output.h"

namespace cleave::cli {

// Where a command declares what it takes. Targets are set before run(); an option that is not given leaves its target.
class Options {
  public:
    virtual ~Options() = default;
    virtual void positional(const std::string& name, std::string& target, const std::string& help, bool required) = 0;
    // Any number of words after those.
    virtual void positionals(const std::string& name, std::vector<std::string>& target, const std::string& help) = 0;
    // The options declared from here on stand under this title in the help.
    virtual void section(const std::string& title) = 0;
    virtual void text(const std::string& flag, const std::string& placeholder, std::string& target,
                      const std::string& help) = 0;
    virtual void texts(const std::string& flag, const std::string& placeholder, std::vector<std::string>& target,
                       const std::string& help) = 0;
    virtual void integer(const std::string& flag, std::int64_t& target, std::int64_t least, std::int64_t most,
                         const std::string& help) = 0;
    virtual void number(const std::string& flag, double& target, double least, double most,
                        const std::string& help) = 0;
    virtual void flag(const std::string& flag, bool& target, const std::string& help) = 0;
    // Not both.
    virtual void exclusive(const std::string& flag, const std::string& other) = 0;
};

class Command {
  public:
    virtual ~Command() = default;
    virtual std::string name() const = 0;
    virtual std::string summary() const = 0;   // one line
    virtual std::string examples() const = 0;  // shown below the options
    virtual void declare(Options& options) = 0;
    virtual int run() = 0;  // the exit code; failures are thrown
    // Whether mpirun's processes are its ranks; any other command is refused under mpirun.
    virtual bool runs_on_ranks() const { return false; }

    bool json = false;  // every command has --json: one document on standard output, nothing else there
};

std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_explain_command();
std::unique_ptr<Command> make_memory_command();
std::unique_ptr<Command> make_schedule_command();
std::unique_ptr<Command> make_generate_command();
std::unique_ptr<Command> make_eval_command();
std::unique_ptr<Command> make_convert_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_tokenize_command();
std::unique_ptr<Command> make_config_command();
std::unique_ptr<Command> make_init_command();

// Parses and runs; maps every failure to its exit code and prints it as "error: ..." on standard error (with --json
// also as {"error", "exit_code"} on standard output). Under mpirun what all processes meet alike is printed by the one
// of rank 0.
int run_program(int argc, const char* const* argv, const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace cleave::cli

// The program `cleave`.
#include <csignal>

#include "cli/command.h"

int main(int argc, char** argv) {
    using namespace cleave::cli;
    // A file that may not grow further is an error of the write, as a full disk is; by default the signal would kill.
    std::signal(SIGXFSZ, SIG_IGN);
    std::vector<std::unique_ptr<Command>> commands;
    commands.push_back(make_train_command());
    commands.push_back(make_generate_command());
    commands.push_back(make_tokenize_command());
    commands.push_back(make_convert_command());
    commands.push_back(make_bench_command());
    commands.push_back(make_config_command());
    commands.push_back(make_init_command());
    return run_program(argc, argv, commands);
}

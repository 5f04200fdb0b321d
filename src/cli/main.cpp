// The program `cleave`.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "base/cores.h"
#include "cli/command.h"

namespace {

// A closed standard stream gives its number to the next file that is opened, which would then receive the log or the
// result. What is written to this stand-in for standard output fails, as it should; a lost log stops no run.
void keep_standard_streams() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
    using namespace cleave::cli;
    cleave::prepare_threads(argv);
    keep_standard_streams();
    // A file that may not grow further is an error of the write, as a full disk is; by default the signal would kill.
    std::signal(SIGXFSZ, SIG_IGN);
    std::vector<std::unique_ptr<Command>> commands;
    commands.push_back(make_train_command());
    commands.push_back(make_verify_command());
    commands.push_back(make_explain_command());
    commands.push_back(make_memory_command());
    commands.push_back(make_schedule_command());
    commands.push_back(make_generate_command());
    commands.push_back(make_eval_command());
    commands.push_back(make_tokenize_command());
    commands.push_back(make_convert_command());
    commands.push_back(make_bench_command());
    commands.push_back(make_config_command());
    commands.push_back(make_init_command());
    return run_program(argc, argv, commands);
}

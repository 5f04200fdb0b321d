// The program `cleave` as a child process: started, sent signals, waited for with a limit. What it prints is kept.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/scratch.h"

namespace cleave::test {

struct Result {
    int exit_code = -1;  // 128 + the signal that ended it
    std::string out;
    std::string err;
};

class Program {
  public:
    struct Limits {
        rlim_t file_bytes = RLIM_INFINITY;
    };
    // Runs in the tree's folder. `words`: the command line, beginning with the program.
    Program(const std::filesystem::path& scratch, std::vector<std::string> words, const Limits& limits)
        : out_(scratch / "stdout"), err_(scratch / "stderr") {
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        child_ = ::fork();
        if (child_ != 0) return;
        const bool ready = ::chdir(CLEAVE_SOURCE) == 0 && redirect("/dev/null", O_RDONLY, 0) &&
                           redirect(out_, O_WRONLY | O_CREAT | O_TRUNC, 1) &&
                           redirect(err_, O_WRONLY | O_CREAT | O_TRUNC, 2);
        const rlimit file{limits.file_bytes, limits.file_bytes};
        if (ready && ::setrlimit(RLIMIT_FSIZE, &file) == 0) ::execvp(argv[0], argv.data());
        ::_exit(126);
    }
    Program(const Program&) = delete;
    ~Program() {
        if (child_ > 0) {
            signal(SIGKILL);
            wait();
        }
    }

    void signal(int number) const { ::kill(child_, number); }

    Result wait() {
        int status = 0;
        for (int tries = 0; ::waitpid(child_, &status, WNOHANG) == 0; ++tries) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            if (tries == kMostTries) signal(SIGKILL);  // it hangs
        }
        child_ = -1;
        return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_all(out_), read_all(err_)};
    }

    // Whether standard error has the text by now.
    bool says(const std::string& text) const { return read_all(err_).find(text) != std::string::npos; }

    // Whether `reached` becomes true while the program runs.
    bool wait_until(const std::function<bool()>& reached) const {
        for (int tries = 0; tries < kMostTries; ++tries) {
            if (reached()) return true;
            siginfo_t ended{};
            ::waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOHANG | WNOWAIT);
            if (ended.si_pid != 0) return reached();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return false;
    }

  private:
    static constexpr int kMostTries = 6000;  // a minute
    static bool redirect(const std::filesystem::path& path, int flags, int to) {
        const int fd = ::open(path.c_str(), flags, 0666);
        return fd >= 0 && ::dup2(fd, to) == to;
    }

    std::filesystem::path out_;
    std::filesystem::path err_;
    pid_t child_ = -1;
};

}  // namespace cleave::test

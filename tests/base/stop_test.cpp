// In child processes, because signals change the process.
#include "base/stop.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace cleave {
namespace {

int exit_code_of(void (*child)()) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::close(STDERR_FILENO);
        install_stop_handler();
        child();
        ::_exit(99);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Stop, TheFirstSignalIsARequest) {
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
        static int raised;
        raised = signal;
        EXPECT_EQ(exit_code_of([] {
                      const bool before = stop_requested();
                      std::raise(raised);
                      ::_exit(!before && stop_requested() ? 0 : 1);
                  }),
                  0);
    }
}

TEST(Stop, TheSecondSignalEndsTheProcess) {
    EXPECT_EQ(exit_code_of([] {
                  std::raise(SIGINT);
                  ::usleep(150'000);
                  std::raise(SIGTERM);
              }),
              130);
}

// timeout(1) signals its child and at once its group, with the child in it.
TEST(Stop, SignalsAtOnceAreOneRequest) {
    EXPECT_EQ(exit_code_of([] {
                  std::raise(SIGTERM);
                  std::raise(SIGTERM);
                  std::raise(SIGHUP);
                  ::_exit(stop_requested() ? 0 : 1);
              }),
              0);
}

TEST(Stop, UnderNohupAClosedTerminalStopsNothing) {
    std::signal(SIGHUP, SIG_IGN);
    EXPECT_EQ(exit_code_of([] {
                  std::raise(SIGHUP);
                  ::_exit(stop_requested() ? 1 : 0);
              }),
              0);
    std::signal(SIGHUP, SIG_DFL);
}

TEST(Stop, ALogThatNobodyReadsStopsNothing) {
    EXPECT_EQ(exit_code_of([] {
                  int ends[2];
                  if (::pipe(ends) != 0) ::_exit(1);
                  ::close(ends[0]);
                  ::_exit(::write(ends[1], "line", 4) < 0 && !stop_requested() ? 0 : 2);
              }),
              0);
}

TEST(Stop, TheAnswerToASignalIsThereAtOnce) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        install_stop_handler();
        std::raise(SIGTERM);
        ::pause();  // a step that takes for ever
    }
    std::string text(200, ' ');
    const ssize_t size = ::read(ends[0], text.data(), text.size());
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    EXPECT_EQ(text, "\nstopping after this step, with a checkpoint (once more: stop at once, without one)\n");
}

}  // namespace
}  // namespace cleave

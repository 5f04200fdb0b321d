// In child processes, because signals change the process.
#include "base/stop.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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
    for (int signal : {SIGINT, SIGTERM}) {
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
                  std::raise(SIGTERM);
              }),
              130);
}

}  // namespace
}  // namespace cleave

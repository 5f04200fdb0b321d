// Cores by the affinity mask, threads by the environment. In child processes, because both change the process.
#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace cleave {
namespace {

template <class F>
int in_child(F&& f) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(f());
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void keep_one_core() {
    cpu_set_t mask;
    ::sched_getaffinity(0, sizeof mask, &mask);
    for (int core = 0, kept = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &mask) && kept++ > 0) CPU_CLR(core, &mask);
    ::sched_setaffinity(0, sizeof mask, &mask);
}

TEST(Cores, AreThoseOfTheAffinityMask) {
    EXPECT_GE(machine_cores(), available_cores());
    EXPECT_EQ(in_child([] {
                  keep_one_core();
                  return available_cores();
              }),
              1);
}

TEST(Cores, ARankGetsAnEqualPartOfThemAndAtLeastOne) {
    ::unsetenv("OMP_NUM_THREADS");
    const int cores = available_cores();
    EXPECT_EQ(threads_a_rank(1, false), cores);
    EXPECT_EQ(threads_a_rank(cores, false), 1);
    EXPECT_EQ(threads_a_rank(10 * cores, false), 1);
    EXPECT_EQ(in_child([] {
                  keep_one_core();
                  return threads_a_rank(1, false) + 10 * threads_a_rank(2, true);
              }),
              11);
}

TEST(Cores, TheEnvironmentsNumberOfThreadsIsHonoured) {
    struct {
        const char* text;
        int threads;
    } const cases[] = {{"3", 3}, {" 7 ", 7}, {"5,2", 5}, {"0", 0}, {"-1", 0}, {"many", 0}, {"", 0}, {"4x", 0}};
    for (const auto& [text, threads] : cases) {
        ::setenv("OMP_NUM_THREADS", text, 1);
        EXPECT_EQ(asked_threads().value_or(0), threads) << text;
        if (threads > 0) {
            EXPECT_EQ(threads_a_rank(2, false), threads);
        }
    }
    ::unsetenv("OMP_NUM_THREADS");
    EXPECT_FALSE(asked_threads());
}

}  // namespace
}  // namespace cleave

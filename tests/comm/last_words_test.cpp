// The line at SIGTERM, in one process: what it says, and who gets the signal next. The job under mpirun:
// killed_test.cpp.
#include "comm/last_words.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace cleave::comm {
namespace {

[[noreturn]] void exit_with_42(int) {
    std::_Exit(42);
}

TEST(InprocLastWords, NameTheOperationIssuedLastOrWaitedIn) {
    const auto dies_saying = [](auto&& work, const char* line) {
        EXPECT_EXIT(
            {
                LastWords words(3);
                work(words);
                ::raise(SIGTERM);
            },
            testing::KilledBySignal(SIGTERM), line);
    };
    dies_saying([](LastWords&) {}, "rank 3 was told to end: it had not begun an operation\n");
    dies_saying([](LastWords& w) { w.issued("a"); }, "rank 3 was told to end: its last operation was a\n");
    dies_saying(
        [](LastWords& w) {
            w.issued("a");
            w.issued("b");
            w.waiting("a");
        },
        "rank 3 was told to end: it waited in a\n");
    dies_saying(
        [](LastWords& w) {
            w.issued("b");
            w.waiting("a");
            w.wait_is_over();
        },
        "rank 3 was told to end: its last operation was b\n");
    dies_saying([](LastWords& w) { w.issued(std::string(5000, 'x')); }, "last operation was x{300,}\n");
}

TEST(InprocLastWords, HandTheSignalOnAndLeaveItAsTheyFoundIt) {
    EXPECT_EXIT(
        {
            std::signal(SIGTERM, exit_with_42);
            LastWords words(0);
            ::raise(SIGTERM);
        },
        testing::ExitedWithCode(42), "rank 0 was told to end");
    EXPECT_EXIT(
        {
            std::signal(SIGTERM, SIG_IGN);
            LastWords words(0);
            ::raise(SIGTERM);
            std::_Exit(0);
        },
        testing::ExitedWithCode(0), "rank 0 was told to end");
    EXPECT_EXIT(
        {
            { LastWords words(0); }
            ::raise(SIGTERM);
        },
        testing::KilledBySignal(SIGTERM), "^$");
}

}  // namespace
}  // namespace cleave::comm

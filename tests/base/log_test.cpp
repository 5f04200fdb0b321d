// The log's lines as they reach a file, its order over threads, and the progress line on a terminal and off.
#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "support/pattern.h"

namespace cleave {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::MatchesRegex;

// A log into a nameless temporary file.
class LogTest : public testing::Test {
  protected:
    ~LogTest() override { std::fclose(file_); }

    Log::Options options(int columns, std::chrono::milliseconds interval) const {
        return {.fd = ::fileno(file_), .columns = columns, .progress_interval = interval};
    }
    std::string written() const {
        std::string text(65536 * 4, '\0');
        const ssize_t size = ::pread(::fileno(file_), text.data(), text.size(), 0);
        text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        return text;
    }
    std::vector<std::string> lines() const {
        std::vector<std::string> all;
        std::istringstream stream(written());
        for (std::string line; std::getline(stream, line);) all.push_back(line);
        return all;
    }

  private:
    std::FILE* file_ = std::tmpfile();
};

TEST_F(LogTest, ALineCarriesTimeRankSequenceAndLevel) {
    Log log(options(0, hours(1)));
    log.line(LogLevel::info, "before any rank");
    std::thread([&] {
        set_thread_rank(3);
        EXPECT_EQ(thread_rank(), 3);
        log.line(LogLevel::warning, "text");
    }).join();
    EXPECT_EQ(thread_rank(), -1);  // the rank is the thread's own
    EXPECT_THAT(lines(), ElementsAre(MatchesRegex("\\[[0-9:.]{12} main #[0-9]+\\] before any rank"),
                                     MatchesRegex("\\[[0-9:.]{12} rank 3 #[0-9]+\\] warning: text")));
}

TEST_F(LogTest, EveryLineOfATextHasTheHead) {
    Log log(options(0, hours(1)));
    log.line(LogLevel::error, "first\nsecond");
    ASSERT_EQ(lines().size(), 2U);
    const std::string head = lines()[0].substr(0, lines()[0].find("first"));
    EXPECT_EQ(lines()[1], head + "second");
}

TEST_F(LogTest, WhatIsQuotedActsOnNoTerminal) {
    Log log(options(0, std::chrono::milliseconds(0)));
    log.line(LogLevel::info, std::string_view("a\x1b[2Jb\r\0c\td", 11));
    log.progress("\x1b]0;title\x07");
    EXPECT_THAT(lines(), ElementsAre(testing::EndsWith("] a\\x1b[2Jb\\x0d\\x00c\td"), "\\x1b]0;title\\x07"));
}

TEST_F(LogTest, LevelsBelowTheLeastAreDropped) {
    Log log(options(0, hours(1)));
    log.line(LogLevel::debug, "dropped");
    log.set_level(LogLevel::error);
    log.line(LogLevel::warning, "dropped");
    EXPECT_FALSE(log.shows(LogLevel::warning));
    EXPECT_EQ(written(), "");
    log.set_level(LogLevel::debug);
    log.line(LogLevel::debug, "shown");
    EXPECT_THAT(written(), testing::EndsWith("] debug: shown\n"));
}

TEST_F(LogTest, LinesOfManyThreadsAreWholeAndNumberedInOrder) {
    Log log(options(0, hours(1)));
    constexpr int kRanks = 4, kLines = 200;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&log, rank] {
            set_thread_rank(rank);
            for (int i = 0; i < kLines; ++i) log.line(LogLevel::info, fmt::format("rank {} line {}", rank, i));
        });
    for (std::thread& thread : threads) thread.join();

    const std::string form = R"(^\[\S+ rank (\d) #(\d+)\] rank (\d) line (\d+)$)";
    std::map<int, int> next;
    long last = 0;
    for (const std::string& line : lines()) {
        const auto found = test::matches(line, form);
        ASSERT_EQ(found.size(), 1u) << line;
        const test::Groups& match = found[0];
        const int rank = std::stoi(match[1]);
        EXPECT_EQ(rank, std::stoi(match[3]));
        EXPECT_EQ(next[rank]++, std::stoi(match[4]));
        EXPECT_GT(std::stol(match[2]), last);
        last = std::stol(match[2]);
    }
    EXPECT_EQ(lines().size(), std::size_t{kRanks * kLines});
}

TEST_F(LogTest, AnObservedSequenceIsLeftBehind) {
    const std::uint64_t from_elsewhere = last_sequence() + 1000;
    observe_sequence(from_elsewhere);
    observe_sequence(5);  // older than what is known: nothing changes
    Log log(options(0, hours(1)));
    log.line(LogLevel::info, "after");
    EXPECT_EQ(last_sequence(), from_elsewhere + 1);
    EXPECT_THAT(written(), testing::HasSubstr(fmt::format("#{}]", from_elsewhere + 1)));
}

TEST_F(LogTest, OffATerminalProgressIsAPlainLineNowAndThen) {
    Log log(options(0, hours(1)));
    log.progress("step 1");
    log.progress("step 2");
    log.progress("step 3");
    EXPECT_EQ(written(), "step 1\n");
    log.end_progress();
    EXPECT_EQ(written(), "step 1\nstep 3\n");
    log.end_progress();
    EXPECT_EQ(written(), "step 1\nstep 3\n");
}

TEST_F(LogTest, WithoutAnIntervalEveryProgressIsShownOnce) {
    Log log(options(0, hours(0)));
    log.progress("step 1");
    log.progress("step 2");
    log.end_progress();
    EXPECT_EQ(written(), "step 1\nstep 2\n");
}

TEST_F(LogTest, OnATerminalOneLineIsRewritten) {
    Log log(options(80, hours(0)));
    log.progress("step 1");
    log.progress("step 2");
    log.end_progress();
    EXPECT_EQ(written(), "\r\x1b[Kstep 1\r\x1b[Kstep 2\n");
}

// In a child process, whose standard error is a terminal.
TEST(LogOptions, ATerminalThatCannotRewriteItsLineIsTreatedAsAFile) {
    struct {
        const char* term;
        bool rewrites;
    } const cases[] = {{"xterm", true}, {"dumb", false}};
    for (const auto& [term, rewrites] : cases) {
        const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
        ASSERT_GE(terminal, 0);
        ASSERT_EQ(::grantpt(terminal) | ::unlockpt(terminal), 0);
        const int user_side = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::setenv("TERM", term, 1);
            ::dup2(user_side, STDERR_FILENO);
            ::_exit(Log::standard_error().columns > 0 ? 1 : 0);
        }
        int status = 0;
        ::waitpid(pid, &status, 0);
        EXPECT_EQ(WEXITSTATUS(status), rewrites ? 1 : 0) << term;
        ::close(user_side);
        ::close(terminal);
    }
}

TEST_F(LogTest, OnATerminalTheLineIsCutToTheWidth) {
    Log log(options(6, hours(0)));
    log.progress("step 1 of 10");
    EXPECT_EQ(written(), "\r\x1b[Kstep ");
}

TEST_F(LogTest, OnATerminalLogLinesAppearAboveTheProgressLine) {
    Log log(options(80, hours(0)));
    log.progress("step 1");
    log.line(LogLevel::info, "saved");
    EXPECT_THAT(written(), MatchesRegex("\r\x1b\\[Kstep 1\r\x1b\\[K\\[.*\\] saved\n\r\x1b\\[Kstep 1"));
}

TEST_F(LogTest, ALogThatCannotBeWrittenStopsNothing) {
    Log log({.fd = -1});
    log.line(LogLevel::info, "lost");
    log.progress("lost");
    log.end_progress();
}

TEST_F(LogTest, StandardErrorOfATestIsDescribed) {
    const Log::Options options = Log::standard_error();
    EXPECT_EQ(options.columns > 0, ::isatty(2) == 1);
    EXPECT_GT(options.progress_interval.count(), 0);
    EXPECT_TRUE(standard_log().shows(LogLevel::info));
}

}  // namespace
}  // namespace cleave

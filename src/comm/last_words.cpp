#include "comm/last_words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "base/error.h"

namespace cleave::comm {

std::atomic<const LastWords::Line*> LastWords::current{nullptr};
struct sigaction LastWords::before {};

LastWords::LastWords(int rank) : rank_(rank) {
    say("it had not begun an operation");
    CLEAVE_CHECK(::sigaction(SIGTERM, nullptr, &before) == 0);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    CLEAVE_CHECK(::sigaction(SIGTERM, &action, nullptr) == 0);
}

LastWords::~LastWords() {
    ::sigaction(SIGTERM, &before, nullptr);
    current.store(nullptr);
}

void LastWords::issued(std::string operation) {
    last_issued_ = std::move(operation);
    say("its last operation was " + last_issued_);
}

void LastWords::waiting(const std::string& operation) {
    say("it waited in " + operation);
}

void LastWords::wait_is_over() {
    say("its last operation was " + last_issued_);
}

void LastWords::say(const std::string& what) {
    Line& line = lines_[next_];
    next_ = (next_ + 1) % lines_.size();
    constexpr std::size_t kMost = std::tuple_size_v<decltype(line.text)> - 1;  // the line's end is kept for its '\n'
    const auto written = fmt::format_to_n(line.text.data(), kMost, "rank {} was told to end: {}", rank_, what);
    *written.out = '\n';
    line.length = static_cast<std::size_t>(written.out - line.text.data()) + 1;
    current.store(&line);
}

// Only what POSIX allows in a signal handler.
void LastWords::on_signal(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    if (const Line* line = current.load()) [[maybe_unused]]
        const auto written = ::write(STDERR_FILENO, line->text.data(), line->length);
    errno = error;
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
    if (before.sa_handler == SIG_IGN) return;
    if (before.sa_handler != SIG_DFL) return before.sa_handler(signal);
    // Open MPI's mpirun loses what it has not read yet when a process ends while the job is being ended.
    const timespec time_to_read{0, 300'000'000};
    ::nanosleep(&time_to_read, nullptr);
    ::sigaction(signal, &before, nullptr);
    ::raise(signal);  // ends the process once this handler has returned
}

}  // namespace cleave::comm

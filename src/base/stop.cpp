#include "base/stop.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/error.h"

namespace cleave {
namespace {

// A request may come as two signals: timeout(1) signals its child and then its whole group, a closed terminal the shell
// and then its job. So soon after the first no second wish is meant.
constexpr std::int64_t kOneRequestNs = 100'000'000;

std::atomic<bool> stopping = false;
std::atomic<std::int64_t> stopping_since_ns = 0;
std::atomic<bool> with_notice = true;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may touch it");

// Only what POSIX allows in a signal handler.
void say(std::string_view notice) {
    if (!with_notice) return;
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, notice.data(), notice.size());
}

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void on_signal(int) {
    if (stopping.load()) {
        if (now_ns() - stopping_since_ns.load() < kOneRequestNs) return;
        say("\nstopped at once, without a checkpoint; --resume goes on from an older one, if there is one\n");
        ::_exit(kExitStopped);
    }
    stopping_since_ns = now_ns();
    stopping = true;
    say("\nstopping after this step, with a checkpoint (once more: stop at once, without one)\n");
}

}  // namespace

void install_stop_handler(bool notice) {
    with_notice = notice;
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
        struct sigaction before {};
        CLEAVE_CHECK(::sigaction(signal, nullptr, &before) == 0);
        if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;  // nohup: the run outlives its terminal
        CLEAVE_CHECK(::sigaction(signal, &action, nullptr) == 0);
    }
    // The log's reader may end before the run (`| head`): what is written to it is lost, and nothing else.
    std::signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() {
    return stopping.load();
}

}  // namespace cleave

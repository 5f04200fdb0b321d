#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/error.h"

namespace cleave {

namespace {

thread_local int this_rank = -1;
std::atomic<std::uint64_t> sequence_counter{0};

constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string_view prefix_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return "debug: ";
        case LogLevel::info: return "";
        case LogLevel::warning: return "warning: ";
        case LogLevel::error: return "error: ";
    }
    return "";
}

std::string time_of_day() {
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);
    std::tm local{};
    ::localtime_r(&now.tv_sec, &local);
    return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec, now.tv_nsec / 1'000'000);
}

std::string speaker() {
    return this_rank < 0 ? std::string("main") : fmt::format("rank {}", this_rank);
}

}  // namespace

void set_thread_rank(int rank) {
    this_rank = rank;
}

int thread_rank() {
    return this_rank;
}

std::uint64_t last_sequence() {
    return sequence_counter.load();
}

void observe_sequence(std::uint64_t sequence) {
    std::uint64_t known = sequence_counter.load();
    while (known < sequence && !sequence_counter.compare_exchange_weak(known, sequence)) {
    }
}

Log::Options Log::standard_error() {
    Options options;
    winsize size{};
    const char* terminal = std::getenv("TERM");
    const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";  // one that cannot rewrite its line
    if (::isatty(options.fd) != 0 && !dumb)
        options.columns = ::ioctl(options.fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    options.progress_interval = std::chrono::milliseconds(options.columns > 0 ? 100 : 5000);
    return options;
}

Log::Log(Options options) : options_(options) {}

void Log::set_level(LogLevel least) {
    const std::lock_guard lock(mutex_);
    least_ = least;
}

bool Log::shows(LogLevel level) const {
    const std::lock_guard lock(mutex_);
    return level >= least_;
}

void Log::line(LogLevel level, std::string_view said) {
    const std::lock_guard lock(mutex_);
    if (level < least_) return;
    const std::string shown = printable(std::string(said));  // names of files and data act on no terminal
    std::string_view text = shown;
    const std::string head =
        fmt::format("[{} {} #{}] {}", time_of_day(), speaker(), ++sequence_counter, prefix_of(level));
    std::string lines(on_terminal_ ? kEraseLine : "");
    // A text of several lines repeats its head, so that a merge by sequence number keeps it together.
    for (bool more = true; more;) {
        const std::size_t end = text.find('\n');
        lines += head;
        lines += text.substr(0, end);
        lines += '\n';
        more = end != std::string_view::npos;
        text.remove_prefix(more ? end + 1 : text.size());
    }
    write(lines);
    if (on_terminal_) show_progress();
}

void Log::progress(std::string_view text) {
    const std::lock_guard lock(mutex_);
    progress_ = printable(std::string(text));
    shown_ = false;
    const auto now = std::chrono::steady_clock::now();
    if (ever_shown_ && now - shown_at_ < options_.progress_interval) return;
    shown_at_ = now;
    ever_shown_ = true;
    show_progress();
}

void Log::end_progress() {
    const std::lock_guard lock(mutex_);
    if (!shown_) show_progress();
    if (on_terminal_) write("\n");
    on_terminal_ = false;
    ever_shown_ = false;
}

void Log::show_progress() {
    shown_ = true;
    if (options_.columns == 0) {
        write(progress_ + "\n");
        return;
    }
    // A full last column would make some terminals wrap.
    const auto width = static_cast<std::size_t>(std::max(options_.columns - 1, 1));
    write(std::string(kEraseLine) + progress_.substr(0, width));
    on_terminal_ = true;
}

// One write a text: lines of several processes on one terminal do not mix. A log that cannot be written stops no run.
void Log::write(std::string_view text) const {
    while (!text.empty()) {
        const ssize_t written = ::write(options_.fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

Log& standard_log() {
    static Log log(Log::standard_error());
    return log;
}

}  // namespace cleave

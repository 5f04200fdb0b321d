// Log lines and the progress line, both on standard error: standard output belongs to results.
//
// A line reads "[16:52:19.123 rank 1 #57] warning: text". Sequence numbers rise over all ranks of a process, so that
// sorting lines by them gives an order in which no line stands before one it depends on. Ranks in other processes
// keep to that order by handing numbers on: observe_sequence(n) makes every later line's number greater than n.
//
// The progress line is one line rewritten in place on a terminal; elsewhere (a file, CI) it becomes a plain line now
// and then. Log lines appear above it. Thread rule: everything here may be called from any thread.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace cleave {

// The rank that the calling thread speaks for; -1, the start value, is none: its lines say "main".
void set_thread_rank(int rank);
int thread_rank();

std::uint64_t last_sequence();
void observe_sequence(std::uint64_t sequence);

enum class LogLevel : std::uint8_t { debug, info, warning, error };

class Log {
  public:
    struct Options {
        int fd = 2;
        int columns = 0;  // of the terminal; 0: not a terminal
        std::chrono::milliseconds progress_interval{0};
    };
    // Standard error as it is: a terminal's width, its progress ten times a second; otherwise every five seconds.
    static Options standard_error();

    explicit Log(Options options);
    void set_level(LogLevel least);  // lines below are dropped; info at the start
    bool shows(LogLevel level) const;

    void line(LogLevel level, std::string_view text);
    // Shows text unless the last one shown is more recent than the interval.
    void progress(std::string_view text);
    // Shows the last text, if it was held back, and leaves the progress line standing.
    void end_progress();

  private:
    void show_progress();
    void write(std::string_view text) const;

    mutable std::mutex mutex_;
    Options options_;
    LogLevel least_ = LogLevel::info;
    std::string progress_;      // the last text given
    bool shown_ = true;         // it has been shown
    bool on_terminal_ = false;  // it stands on the terminal's last line
    bool ever_shown_ = false;
    std::chrono::steady_clock::time_point shown_at_;
};

// The log of this process.
Log& standard_log();

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (standard_log().shows(level)) standard_log().line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::warning, format, std::forward<Args>(args)...);
}

}  // namespace cleave

// The three kinds of failure (ARCHITECTURE.md, "Failures"): a user error, a rank failure, a broken invariant.
// Thread rule: free functions and exceptions, usable from any thread.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cleave {

// Exit codes of the `cleave` program.
enum ExitCode : int {
    kExitOk = 0,
    kExitNo = 1,           // the answer is no: verify differs, the loss is not finite, nothing fits
    kExitUserError = 2,    // see UserError
    kExitRankFailure = 3,  // see RankFailure
    kExitStopped = 130,    // stopped by a signal, checkpoint written; by a second one: at once, without
};

// `text` with its control characters written out (\x00, \x1b), but line breaks and tabs: what a message quotes may hold
// any, a NUL would end the message, and others would act on the terminal.
std::string printable(const std::string& text);

// The input was wrong. The message names the field or file, what was found and what would be accepted.
class UserError : public std::runtime_error {
  public:
    explicit UserError(const char* message) : std::runtime_error(message) {}
    explicit UserError(const std::string& message) : std::runtime_error(printable(message)) {}
    template <class... Args>
    explicit UserError(fmt::format_string<Args...> format, Args&&... args)
        : std::runtime_error(printable(fmt::format(format, std::forward<Args>(args)...))) {}
};

// The run was asked for correctly, but its answer is no (kExitNo), for instance a loss that is not finite.
class RunError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
    template <class... Args>
    explicit RunError(fmt::format_string<Args...> format, Args&&... args)
        : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// A rank did not do its part. The message names the rank, the operation and how long was waited.
class RankFailure : public std::runtime_error {
  public:
    RankFailure(int rank, const std::string& message) : std::runtime_error(message), rank_(rank) {}
    // The rank that failed (the culprit, not the one that noticed), or -1 where it cannot be told.
    int rank() const { return rank_; }

  private:
    int rank_;
};

// Prints "file:line: broken invariant: text" and aborts: a bug of Cleave, never of its user.
[[noreturn]] void broken_invariant(const char* file, int line, const char* condition, const std::string& detail);

// CLEAVE_CHECK(condition) or CLEAVE_CHECK(condition, "format {}", args...): always on, in every build.
#define CLEAVE_CHECK(condition, ...)                                                                         \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]]                                                                       \
            ::cleave::broken_invariant(__FILE__, __LINE__, #condition, ::cleave::detail::text(__VA_ARGS__)); \
    } while (false)

namespace detail {
inline std::string text() {
    return {};
}
template <class... Args>
std::string text(fmt::format_string<Args...> format, Args&&... args) {
    return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace detail

}  // namespace cleave

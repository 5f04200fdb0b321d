// The operations a rank has issued and not completed. There are no communication threads: the rank's own thread does
// its part of all of them, in issue order, whenever it waits, tests or calls progress(). So ranks may wait in different
// orders without deadlock.
// Thread rule: belongs to one rank thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/program_cache.h"
#include "comm/transport.h"

namespace cleave::comm {

struct PendingOperation {
    std::shared_ptr<const void> communicator;        // what the request refers to lives as long as it does
    std::shared_ptr<const PreparedProgram> program;  // likewise; null where there is none
    std::unique_ptr<Request> request;                // null once complete
    std::optional<Clock::time_point> waiting_since;
};

class Progress {
  public:
    Progress(std::unique_ptr<Endpoint> endpoint, Duration timeout)
        : endpoint_(std::move(endpoint)), timeout_(timeout) {}

    Endpoint& endpoint() { return *endpoint_; }
    void set_timeout(Duration timeout) { timeout_ = timeout; }
    Stats stats() const;

    void add(PendingOperation& operation);
    // Does what can be done now for all pending operations. Throws RankFailure.
    void advance();
    bool test(PendingOperation& operation);
    void wait(PendingOperation& operation);
    // For an operation whose handle goes away unwaited: waits, or gives it up if this rank is failing.
    void release(PendingOperation& operation, bool unwinding) noexcept;

  private:
    template <class F>
    void failing_on_error(F&& f);
    void advance_pending();
    bool completes(const PendingOperation& operation);
    void check_time(PendingOperation& operation);

    std::unique_ptr<Endpoint> endpoint_;
    Duration timeout_;
    std::vector<PendingOperation*> pending_;  // in issue order
    bool failed_ = false;
    double wait_seconds_ = 0;
};

}  // namespace cleave::comm

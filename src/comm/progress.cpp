#include "comm/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace cleave::comm {
namespace {

double seconds(Duration d) {
    return std::chrono::duration<double>(d).count();
}

}  // namespace

// Whatever goes wrong here is told to all ranks before it is thrown, and no other rank touches our buffers after that.
template <class F>
void Progress::failing_on_error(F&& f) {
    try {
        f();
    } catch (const RankFailure& failure) {
        failed_ = true;
        if (!endpoint_->fail(failure.rank(), failure.what())) endpoint_->check_failure();  // another's came first
        throw;
    }
}

void Progress::add(PendingOperation& operation) {
    pending_.push_back(&operation);
    if (operation.request->starts_at_issue()) failing_on_error([&] { advance_pending(); });
}

void Progress::advance_pending() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
        if (pending_[i]->request->advance())
            pending_[i]->request.reset();
        else
            pending_[kept++] = pending_[i];
    }
    pending_.resize(kept);
}

bool Progress::completes(const PendingOperation& operation) {
    advance_pending();
    return !operation.request;
}

void Progress::advance() {
    failing_on_error([&] {
        advance_pending();
        endpoint_->check_failure();
    });
}

void Progress::check_time(PendingOperation& operation) {
    const auto now = Clock::now();
    if (!operation.waiting_since) operation.waiting_since = now;
    const Duration waited = now - *operation.waiting_since;
    if (waited < timeout_) return;
    int culprit = -1;
    const std::string whom = operation.request->waiting_for(culprit);
    throw RankFailure(culprit, fmt::format("rank {} waited {:.2f} s in {}: {}", endpoint_->world_rank(),
                                           seconds(waited), operation.request->describe(), whom));
}

bool Progress::test(PendingOperation& operation) {
    if (!operation.request) return true;
    failing_on_error([&] {
        if (completes(operation)) return;
        endpoint_->check_failure();
        operation.request->check_possible();
        check_time(operation);
    });
    return !operation.request;
}

void Progress::wait(PendingOperation& operation) {
    if (!operation.request) return;
    constexpr Duration kTick = std::chrono::milliseconds(50);  // how often a sleeper looks at the clock
    const auto start = Clock::now();
    const double moved_before = endpoint_->move_seconds();
    failing_on_error([&] {
        for (int looks = endpoint_->looks_before_sleep(); looks > 0; --looks) {
            if (completes(operation)) return;
            endpoint_->pause_between_looks();
        }
        while (true) {
            const std::uint32_t announced = endpoint_->announce_sleep();
            if (completes(operation)) return;
            endpoint_->check_failure();
            operation.request->check_possible();
            check_time(operation);
            endpoint_->sleep(announced, std::min(kTick, timeout_), *operation.request);
        }
    });
    endpoint_->wait_is_over();
    wait_seconds_ += seconds(Clock::now() - start) - (endpoint_->move_seconds() - moved_before);
}

void Progress::release(PendingOperation& operation, bool unwinding) noexcept {
    if (!operation.request) return;
    if (!failed_ && unwinding) {
        failed_ = true;
        const std::string what = operation.request->describe();
        endpoint_->fail(endpoint_->world_rank(), fmt::format("it stopped with {} pending", what));
    }
    if (!failed_) {
        try {
            wait(operation);
            return;
        } catch (...) {  // told to all ranks; this rank's next operation throws it
        }
    }
    std::erase(pending_, &operation);
}

Stats Progress::stats() const {
    Stats stats = endpoint_->stats();
    stats.wait_seconds = wait_seconds_;
    return stats;
}

}  // namespace cleave::comm

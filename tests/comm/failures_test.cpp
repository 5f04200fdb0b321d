// Ranks that fail, disagree, stop early or do not come: a rank failure that names them, on every rank, in bounded time.
#include <numeric>
#include <thread>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

constexpr Duration kShort = milliseconds(300);
constexpr Duration kLong = std::chrono::seconds(60);

bool contains(const std::exception& e, const std::string& text) {
    return std::string(e.what()).find(text) != std::string::npos;
}

// Each failure takes its timeout, so not all sizes are tried.
std::vector<int> failing_sizes() {
    const std::vector<int> all = sizes(2);
    return all.size() > 1 ? std::vector{2, 3, 7} : all;
}

class Stopwatch {
  public:
    double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  private:
    Clock::time_point start_ = Clock::now();
};

TEST(Failures, ARankThatNeverArrivesIsNamed) {
    for (const int n : failing_sizes()) {
        const Stopwatch watch;
        const RankFailure f = failure_of(n, kShort, [&](Communicator& world) {
            std::vector<float> x(1024, 1.0f);
            world.barrier().wait();
            if (world.rank() == n - 1) {  // alive, but elsewhere
                float y = 0;
                world.recv(&y, 1, DType::f32, n - 1, 77);
            }
            world.all_reduce(x.data(), x.data(), 1024, DType::f32, ReduceOp::sum).wait();
        });
        EXPECT_LT(watch.seconds(), 5);
        // The one that hangs and those that wait for it run out of time together: either may be the first.
        EXPECT_EQ(f.rank(), n - 1) << f.what();
        EXPECT_TRUE(contains(f, "waited 0.3")) << f.what();
    }
}

TEST(Failures, TheReportOfAnAbsentRankSaysEverything) {
    for (const int n : failing_sizes()) {
        const RankFailure f = failure_of(n, kShort, [&](Communicator& world) {
            if (world.rank() == n - 1) world.set_timeout(kLong);
            std::vector<float> x(1024, 1.0f);
            world.barrier().wait();
            if (world.rank() == n - 1) {
                float y = 0;
                world.recv(&y, 1, DType::f32, 0, 77);
            }
            world.all_reduce(x.data(), x.data(), 1024, DType::f32, ReduceOp::sum).wait();
        });
        EXPECT_EQ(f.rank(), n - 1) << f.what();
        EXPECT_TRUE(contains(f, "all_reduce #1 (sum, f32, 1024 elements, direct)")) << f.what();
        EXPECT_TRUE(contains(f, "rank " + std::to_string(n - 1) + " has not arrived")) << f.what();
        if (transport() == TransportKind::inproc) {
            EXPECT_TRUE(contains(f, "is waiting in recv from rank 0, tag 77")) << f.what();
        }
    }
}

TEST(Failures, ALateRankIsNoFailure) {
    for (const int n : failing_sizes())
        on_ranks(n, [&](Communicator& world) {
            float x = 1;
            if (world.rank() == 0) std::this_thread::sleep_for(milliseconds(60));
            world.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait();
            EXPECT_EQ(x, static_cast<float>(n));
        });
}

// One rank differs in one thing; both names and both calls are in the message.
void expect_disagreement(int n, const std::string& what,
                         const std::function<Handle(Communicator&, bool odd_one, float*)>& call) {
    const Stopwatch watch;
    const RankFailure f = failure_of(n, kLong, [&](Communicator& world) {
        std::vector<float> x(256, 1.0f);
        call(world, world.rank() == n - 1, x.data()).wait();
    });
    EXPECT_LT(watch.seconds(), 5) << what;
    EXPECT_TRUE(contains(f, "disagree")) << what << ": " << f.what();
    EXPECT_TRUE(contains(f, "rank " + std::to_string(n - 1) + " calls")) << what << ": " << f.what();
}

TEST(Failures, RanksThatDisagreeAreNamed) {
    for (const int n : failing_sizes()) {
        expect_disagreement(n, "count", [](Communicator& w, bool odd, float* x) {
            return w.all_reduce(x, x, odd ? 100 : 101, DType::f32, ReduceOp::sum);
        });
        expect_disagreement(n, "dtype", [](Communicator& w, bool odd, float* x) {
            return w.all_reduce(x, x, 64, odd ? DType::i32 : DType::f32, ReduceOp::sum);
        });
        expect_disagreement(n, "reduction", [](Communicator& w, bool odd, float* x) {
            return w.all_reduce(x, x, 64, DType::f32, odd ? ReduceOp::max : ReduceOp::sum);
        });
        expect_disagreement(n, "root", [](Communicator& w, bool odd, float* x) {
            return w.broadcast(x, 64, DType::f32, odd ? w.rank() : 0);
        });
        expect_disagreement(n, "operation", [](Communicator& w, bool odd, float* x) {
            return odd ? w.all_reduce(x, x, 64, DType::f32, ReduceOp::sum) : w.broadcast(x, 64, DType::f32, 0);
        });
        expect_disagreement(n, "algorithm", [](Communicator& w, bool odd, float* x) {
            return w.all_reduce(x, x, 64, DType::f32, ReduceOp::sum, odd ? Algorithm::ring : Algorithm::direct);
        });
        expect_disagreement(n, "pieces of the same sum", [n](Communicator& w, bool odd, float* x) {
            std::vector<std::int64_t> counts(static_cast<std::size_t>(n), 1);
            counts[odd ? 0 : 1] = 2;
            return w.all_gather(x, x + 100, counts, DType::f32);
        });
        expect_disagreement(n, "order", [](Communicator& w, bool odd, float* x) {
            Handle first = w.all_reduce(x, x, odd ? 8 : 16, DType::f32, ReduceOp::sum);
            Handle second = w.all_reduce(x + 100, x + 100, odd ? 16 : 8, DType::f32, ReduceOp::sum);
            first.wait();
            return second;
        });
    }
}

// Over mpi group() itself waits for its members, over inproc the group's first operation does.
TEST(Failures, ARankThatDoesNotComeToMakeAGroupIsNamed) {
    for (const int n : failing_sizes()) {
        const Stopwatch watch;
        const RankFailure f = failure_of(n, kShort, [&](Communicator& world) {
            if (world.rank() == n - 1) {
                world.set_timeout(kLong);
                float y = 0;
                world.recv(&y, 1, DType::f32, 0, 78);
            }
            std::vector<int> all(static_cast<std::size_t>(n));
            std::iota(all.begin(), all.end(), 0);
            world.group(all).barrier().wait();
        });
        EXPECT_LT(watch.seconds(), 5);
        EXPECT_EQ(f.rank(), n - 1) << f.what();
        EXPECT_TRUE(contains(f, transport() == TransportKind::mpi ? "group() of ranks 0, 1" : "barrier #0 (direct) of"))
            << f.what();
        EXPECT_TRUE(contains(f, "rank " + std::to_string(n - 1) + " has not arrived")) << f.what();
    }
}

TEST(Inproc, RanksThatDisagreeOnInnerGroupsAreNamed) {
    expect_disagreement(8, "inner", [](Communicator& w, bool odd, float* x) {
        return w.start({Operation::all_reduce, Algorithm::hierarchical, 8, 0, odd ? 2 : 4, {64}}, x, x, DType::f32);
    });
}

TEST(Failures, RanksThatMakeDifferentGroupsAreNamed) {
    for (const int n : failing_sizes()) {
        if (n < 3) continue;
        const Stopwatch watch;
        const RankFailure f =
            failure_of(n, transport() == TransportKind::mpi ? kLong : kShort, [&](Communicator& world) {
                std::vector<int> ranks{0, n - 1};
                if (world.rank() < n - 1) ranks = {0, 1, n - 1};
                if (world.rank() > 1 && world.rank() < n - 1) return;
                world.group(ranks).barrier().wait();
            });
        EXPECT_LT(watch.seconds(), 5);
        EXPECT_TRUE(contains(f, transport() == TransportKind::mpi ? "disagree" : "has not arrived")) << f.what();
        EXPECT_TRUE(contains(f, "rank " + std::to_string(n - 1))) << f.what();
    }
}

TEST(Failures, AMessageOfAnotherSizeIsADisagreement) {
    for (const int n : failing_sizes()) {
        const RankFailure f = failure_of(n, kLong, [&](Communicator& world) {
            float x[8] = {};
            if (world.rank() == 0) world.send(x, 8, DType::f32, 1, 4);
            if (world.rank() == 1) world.recv(x, 7, DType::f32, 0, 4);
            world.barrier().wait();
        });
        EXPECT_TRUE(contains(f, "recv from rank 0, tag 4 (f32, 7 elements)")) << f.what();
        EXPECT_TRUE(contains(f, "rank 0 sends 8 elements of f32")) << f.what();
    }
}

TEST(Failures, AMessageOfAnotherDTypeIsADisagreement) {
    for (const int n : failing_sizes()) {
        const RankFailure f = failure_of(n, kLong, [&](Communicator& world) {
            float x[8] = {};
            if (world.rank() == 0) world.send(x, 8, DType::f32, 1, 4);
            if (world.rank() == 1) world.recv(x, 8, DType::i32, 0, 4);
            world.barrier().wait();
        });
        EXPECT_TRUE(contains(f, "recv from rank 0, tag 4 (i32, 8 elements)")) << f.what();
        EXPECT_TRUE(contains(f, "rank 0 sends 8 elements of f32")) << f.what();
    }
}

TEST(Failures, ARankThatFinishesEarlyIsNamed) {
    for (const int n : failing_sizes()) {
        const Stopwatch watch;
        const RankFailure f = failure_of(n, kLong, [&](Communicator& world) {
            world.barrier().wait();
            if (world.rank() == n - 1) return;
            world.barrier().wait();
        });
        EXPECT_LT(watch.seconds(), 5);
        EXPECT_EQ(f.rank(), n - 1) << f.what();
        EXPECT_TRUE(contains(f, "has finished")) << f.what();
    }
}

TEST(Failures, ASendNobodyReceivesIsReported) {
    for (const int n : failing_sizes()) {
        const RankFailure f = failure_of(n, kShort, [&](Communicator& world) {
            const float x = 1;
            if (world.rank() == 0) world.send(&x, 1, DType::f32, 1, 5);
        });
        EXPECT_TRUE(contains(f, "rank 1")) << f.what();
        EXPECT_TRUE(contains(f, "send to rank 1, tag 5")) << f.what();
    }
}

// Two blocking sends to each other: a deadlock for every message size, because nothing is buffered.
TEST(Failures, TwoSendsToEachOtherAreADeadlockAndTheReportSaysWhoWaitsForWhom) {
    for (const std::int64_t count : {1, 100000}) {
        if (failing_sizes().empty()) break;  // one MPI process has nobody to wait for
        const int n = failing_sizes().front();
        const RankFailure f = failure_of(n, kShort, [&](Communicator& world) {
            const std::vector<float> x(static_cast<std::size_t>(count));
            if (world.rank() < 2) world.send(x.data(), count, DType::f32, 1 - world.rank(), 6);
            world.barrier().wait();
        });
        EXPECT_TRUE(contains(f, "waited 0.3")) << f.what();
        if (transport() == TransportKind::inproc) {
            EXPECT_TRUE(contains(f, "send to rank 1, tag 6") && contains(f, "send to rank 0, tag 6")) << f.what();
        } else {
            EXPECT_TRUE(contains(f, ", tag 6") || contains(f, "barrier")) << f.what();
        }
    }
}

struct Breakdown : std::runtime_error {
    using std::runtime_error::runtime_error;
};

TEST(Failures, AnExceptionOnOneRankReachesEveryOther) {
    for (const int n : failing_sizes()) {
        const Stopwatch watch;
        std::atomic<int> told{0};
        try {
            run_ranks({.ranks = n, .timeout = kLong}, [&](Communicator& world) {
                std::vector<float> x(1000);
                if (world.rank() == n - 1) throw Breakdown("the disk is on fire");
                try {
                    for (int k = 0; k < 1000000; ++k)
                        world.all_reduce(x.data(), x.data(), 1000, DType::f32, ReduceOp::sum).wait();
                } catch (const RankFailure& f) {
                    EXPECT_EQ(f.rank(), n - 1);
                    EXPECT_TRUE(contains(f, "the disk is on fire")) << f.what();
                    ++told;
                    throw;
                }
            });
            ADD_FAILURE() << "no failure";
        } catch (const Breakdown& cause) {  // the first failure, not its consequences
            EXPECT_STREQ(cause.what(), "the disk is on fire");
        } catch (const RankFailure& consequence) {
            EXPECT_EQ(transport(), TransportKind::mpi) << "inproc rethrows the cause itself";
            EXPECT_TRUE(contains(consequence, "the disk is on fire"));
        }
        EXPECT_LT(watch.seconds(), 5);
        if (transport() == TransportKind::inproc) {
            EXPECT_EQ(told.load(), n - 1);
        }
    }
}

// The failing rank's buffers are being read by others when it unwinds: nobody may touch them afterwards (address
// sanitizer).
TEST(Failures, UnwindingWithOperationsInFlightIsSafe) {
    for (const int n : failing_sizes())
        for (int repeat = 0; repeat < 5; ++repeat) {
            try {
                run_ranks({.ranks = n, .timeout = kLong}, [&](Communicator& world) {
                    std::vector<float> x(200000, 1.0f);
                    std::vector<float> y(x.size());
                    std::vector<Handle> handles;
                    for (int k = 0; k < 4; ++k)
                        handles.push_back(world.all_reduce(x.data(), y.data() + k, 199000, DType::f32, ReduceOp::sum));
                    if (world.rank() == repeat % n) throw Breakdown("stop");
                    for (Handle& h : handles) h.wait();
                });
                ADD_FAILURE() << "no failure";
            } catch (const std::exception& e) {
                EXPECT_TRUE(contains(e, "stop") || contains(e, "pending")) << e.what();
            }
        }
}

TEST(Failures, AfterAFailureEveryOperationFails) {
    for (const int n : failing_sizes())
        (void)failure_of(n, kShort, [&](Communicator& world) {
            float x = 1;
            if (world.rank() == 0) {
                float y = 0;
                EXPECT_THROW(world.recv(&y, 1, DType::f32, 0, 9), RankFailure);
                EXPECT_THROW(world.barrier().wait(), RankFailure);
                EXPECT_THROW(world.send(&x, 1, DType::f32, n - 1), RankFailure);
            }
            world.barrier().wait();
        });
}

TEST(Failures, AFailedRunDoesNotSpoilTheNext) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            float x = 1;
            world.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait();
            EXPECT_EQ(x, static_cast<float>(n));
        });
}

TEST(Inproc, LaunchRefusesWhatItCannotDo) {
    EXPECT_THROW(run_ranks({.ranks = -1}, [](Communicator&) {}), UserError);
    EXPECT_THROW(run_ranks({.ranks = 2, .transport = TransportKind::mpi}, [](Communicator&) {}), UserError);
    int calls = 0;
    run_ranks({}, [&](Communicator& world) { calls += world.size(); });
    EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace cleave::comm::test

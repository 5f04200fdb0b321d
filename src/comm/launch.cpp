#include "comm/launch.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/words.h"
#include "comm/inproc.h"
#include "comm/mpi.h"
#include "comm/mpi_session.h"

namespace cleave::comm {
namespace {

using RankMain = std::function<void(Communicator&)>;

Communicator world_of(InprocWorld& world, int rank, Duration timeout) {
    auto endpoint = std::make_unique<InprocEndpoint>(world, rank);
    auto group = std::make_unique<InprocGroup>(*endpoint, world.whole());
    return Communicator(std::make_shared<Progress>(std::move(endpoint), timeout), std::move(group));
}

// Runs one rank; its failure is told to the world and kept there.
void run_rank(InprocWorld& world, int rank, Duration timeout, const RankMain& rank_main) {
    try {
        Communicator communicator = world_of(world, rank, timeout);
        rank_main(communicator);
    } catch (const RankFailure& failure) {
        world.fail(rank, failure.rank(), failure.what(), std::current_exception());
    } catch (const std::exception& error) {
        world.fail(rank, rank, error.what(), std::current_exception());
    } catch (...) {
        world.fail(rank, rank, "an exception that is no std::exception", std::current_exception());
    }
    world.finish(rank);
}

// A rank that computes for ever cannot be stopped from outside; the process can.
[[noreturn]] void give_up(const InprocWorld& world) {
    std::string message = "a rank has failed and another does not return";
    try {
        std::rethrow_exception(world.first_exception());
    } catch (const std::exception& error) {
        message = error.what();
    } catch (...) {
    }
    std::string missing;
    for (int r = 0; r < world.size(); ++r)
        if (!world.finished(r)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
    std::fprintf(stderr, "%s; after the failure rank %s did not return, so the process ends\n", message.c_str(),
                 missing.c_str());
    std::fflush(stderr);
    std::_Exit(kExitRankFailure);
}

void run_inproc(const LaunchOptions& options, const RankMain& rank_main) {
    const int ranks = std::max(1, options.ranks);
    InprocWorld world(ranks);
    if (ranks == 1) {
        Communicator communicator = world_of(world, 0, options.timeout);
        return rank_main(communicator);
    }
    std::mutex mutex;
    std::condition_variable changed;
    int running = ranks;
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
            run_rank(world, r, options.timeout, rank_main);
            const std::lock_guard lock(mutex);
            --running;
            changed.notify_all();
        });
    {
        std::unique_lock lock(mutex);
        std::optional<Clock::time_point> deadline;
        while (running > 0) {
            changed.wait_for(lock, std::chrono::milliseconds(100));
            if (!world.failed()) continue;
            if (!deadline) deadline = Clock::now() + options.grace;
            if (running > 0 && Clock::now() > *deadline) give_up(world);
        }
    }
    for (std::thread& t : threads) t.join();
    if (const auto exception = world.first_exception()) std::rethrow_exception(exception);
    CLEAVE_CHECK(!world.failed(), "a failure without its exception");
}

int exit_code_of(const std::exception& error) {
    if (dynamic_cast<const UserError*>(&error) != nullptr) return kExitUserError;
    if (dynamic_cast<const RunError*>(&error) != nullptr) return kExitNo;
    return kExitRankFailure;
}

void run_mpi(const LaunchOptions& options, const RankMain& rank_main) {
    MpiSession& session = MpiSession::get();
    if (options.ranks != 0 && options.ranks != session.size())
        throw UserError("asked for {}, but mpirun has started {}; both must be the same",
                        counted(options.ranks, "rank"), counted(session.size(), "process", "processes"));
    auto owned = std::make_unique<MpiEndpoint>(options.fingerprints);
    MpiEndpoint& endpoint = *owned;
    auto progress = std::make_shared<Progress>(std::move(owned), options.timeout);
    session.set_outcome(kExitRankFailure);
    try {
        Communicator world(progress, std::make_unique<MpiGroup>(endpoint));
        rank_main(world);
        endpoint.finish();
        session.set_outcome(kExitOk);
    } catch (const RankFailure& failure) {
        endpoint.fail(failure.rank(), failure.what());
        throw;
    } catch (const std::exception& error) {
        endpoint.fail(session.rank(), error.what());
        session.set_outcome(exit_code_of(error));
        throw;
    }
}

// Of the environment variables that launchers set, the first that is there.
std::optional<int> first_number(std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (const char* text = std::getenv(name)) return std::atoi(text);
    return std::nullopt;
}

}  // namespace

bool under_mpirun() {
    return MpiSession::available();
}

ProcessPlace process_place() {
    if (!under_mpirun()) return {};
    const auto rank = first_number({"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
    const auto count = first_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
    ProcessPlace place;
    place.rank = rank && count ? *rank : MpiSession::get().rank();
    place.count = rank && count ? *count : MpiSession::get().size();
    place.local_count = first_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}).value_or(place.count);
    return place;
}

void run_ranks(const LaunchOptions& options, const RankMain& rank_main) {
    const auto transport = options.transport.value_or(under_mpirun() ? TransportKind::mpi : TransportKind::inproc);
    if (options.ranks < 0) throw UserError("asked for {} ranks; 1 or more are possible", options.ranks);
    if (transport == TransportKind::inproc) return run_inproc(options, rank_main);
    if (!under_mpirun())
        throw UserError("the mpi transport needs mpirun: mpirun -n {} cleave ...", std::max(1, options.ranks));
    run_mpi(options, rank_main);
}

}  // namespace cleave::comm

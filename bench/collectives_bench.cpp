// Collectives over inproc against the MPI library's own, and against a copy bound: one table with verdicts.
//
//   collectives_bench [OP ...]      all operations, or those named; medians of 5 alternating runs of each side
//   CLEAVE_BENCH_PREFIX="chrt -r 1" gives both sides real-time priority on a machine that is not quiet
//
// Each side is a child process of this program: threads of one process, or `mpirun -n N` with --algorithm native and
// without our fingerprints. Ratios of the two, from one run, are what is judged; times depend on the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/launch.h"
#include "comm/measure.h"

namespace {

using namespace cleave;
using comm::Operation;

constexpr std::int64_t kSizes[] = {4 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
constexpr int kRepeats = 5;
constexpr Operation kMeasured[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                   Operation::broadcast,  Operation::reduce,         Operation::scatter,
                                   Operation::gather,     Operation::all_to_all,     Operation::send};

// A child's work: one line a size, "bytes seconds copy_seconds wrong".
void measure_all(Operation operation, int ranks, bool native) {
    comm::LaunchOptions launch{.ranks = native ? 0 : ranks, .fingerprints = !native};
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        for (const std::int64_t bytes : kSizes) {
            const bool collective = operation != Operation::send;
            comm::MeasureOptions how{operation,
                                     native && collective ? comm::Algorithm::native : comm::Algorithm::automatic};
            how.iterations = bytes <= 4096 ? 2000
                                           : std::clamp(static_cast<int>((std::int64_t{1} << 30) / bytes), 10, 200) /
                                                 (native ? 3 : 1);
            how.warmup = std::max(2, how.iterations / 10);
            how.copy_bound = !native;
            const comm::Measurement m = comm::measure(world, how, bytes / 4);
            if (world.rank() == 0) fmt::print("{} {} {} {}\n", m.bytes, m.mean, m.copy_seconds, m.wrong);
        }
    });
}

struct Sample {
    std::vector<double> seconds, of_bound;
};

void run_child(const std::string& command, std::map<std::int64_t, Sample>& samples) {
    std::FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) throw UserError("cannot run {}", command);
    long long bytes = 0;
    long long wrong = 0;
    double seconds = 0;
    double copy = 0;
    while (std::fscanf(pipe, "%lld %lf %lf %lld", &bytes, &seconds, &copy, &wrong) == 4) {
        if (wrong != 0) throw RunError("{} wrong elements from {}", wrong, command);
        samples[bytes].seconds.push_back(seconds);
        samples[bytes].of_bound.push_back(copy / seconds);
    }
    if (pclose(pipe) != 0) throw RunError("{} failed", command);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double wanted_ratio(Operation operation, std::int64_t bytes) {
    if (bytes <= 4096) return 1.0;
    return operation == Operation::all_reduce ? 4.0 : operation == Operation::reduce_scatter ? 5.0 : 1.5;
}

bool has_bound(int ranks, std::int64_t bytes) {
    return bytes >= (ranks == 2 ? std::int64_t{1} << 20 : std::int64_t{64} << 20);
}

// Returns the number of targets missed.
int compare(const std::string& self, Operation operation, int ranks) {
    const char* prefix = std::getenv("CLEAVE_BENCH_PREFIX");
    const std::string arguments = fmt::format("--measure {} {}", comm::name_of(operation), ranks);
    const std::string inproc = fmt::format("{} {} {} inproc", prefix ? prefix : "", self, arguments);
    const std::string mpi = fmt::format("{} mpirun --allow-run-as-root --oversubscribe -n {} {} {} native",
                                        prefix ? prefix : "", ranks, self, arguments);
    std::map<std::int64_t, Sample> ours, theirs;
    for (int i = 0; i < kRepeats; ++i) {
        run_child(inproc, ours);
        run_child(mpi, theirs);
    }
    int missed = 0;
    for (const std::int64_t bytes : kSizes) {
        const double us = median(ours.at(bytes).seconds);
        const double mpi_us = median(theirs.at(bytes).seconds);
        const double bus = comm::bus_factor(operation, ranks) * static_cast<double>(bytes) / 1e9;
        const double ratio = mpi_us / us;
        const double bound = median(ours.at(bytes).of_bound);
        const bool fast = ratio >= wanted_ratio(operation, bytes);
        const bool near = !has_bound(ranks, bytes) || bound >= 0.8;
        missed += (fast ? 0 : 1) + (near ? 0 : 1);
        fmt::print("{:>14} {:>5} {:>10} {:>11.2f} {:>11.2f} {:>9.3f} {:>9.3f} {:>7.2f}x (>= {:.1f} {}) {:>6.0f} %{}\n",
                   comm::name_of(operation), ranks, bytes, us * 1e6, mpi_us * 1e6, bus / us, bus / mpi_us, ratio,
                   wanted_ratio(operation, bytes), fast ? "ok" : "MISSED", 100 * bound,
                   !has_bound(ranks, bytes) ? ""
                   : near                   ? " (>= 80 ok)"
                                            : " (>= 80 MISSED)");
        std::fflush(stdout);
    }
    return missed;
}

int run(int argc, char** argv) {
    if (argc > 4 && std::string(argv[1]) == "--measure") {
        measure_all(comm::operation_from(argv[2]), std::atoi(argv[3]), std::string(argv[4]) == "native");
        return kExitOk;
    }
    std::vector<Operation> operations;
    for (int i = 1; i < argc; ++i) operations.push_back(comm::operation_from(argv[i]));
    if (operations.empty()) operations.assign(std::begin(kMeasured), std::end(kMeasured));
    fmt::print(
        "f32, medians of {}; busbw in GB/s; copy bound: all ranks at once copying as many bytes as the operation makes "
        "each "
        "read or write\n{:>14} {:>5} {:>10} {:>11} {:>11} {:>9} {:>9} {:>8} {:>25}\n",
        kRepeats, "operation", "ranks", "bytes", "inproc us", "mpi us", "inproc", "mpi", "ratio", "of copy bound");
    int missed = 0;
    for (const Operation operation : operations)
        for (const int ranks : {2, 4}) missed += compare(argv[0], operation, ranks);
    fmt::print("{} targets missed\n", missed);
    return missed == 0 ? kExitOk : kExitNo;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return kExitRankFailure;
    }
}

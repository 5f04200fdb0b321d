#include <cmath>

#include "base/error.h"
#include "cli/bench_collectives.h"
#include "cli/command.h"

namespace cleave::cli {
namespace {

class BenchCommand : public Command {
  public:
    std::string name() const override { return "bench"; }
    std::string summary() const override { return "measure collectives and check their results"; }
    std::string examples() const override {
        return "  cleave bench all_reduce --ranks 2\n"
               "  cleave bench all_reduce --elements 1e8\n"
               "  cleave bench reduce_scatter --algorithm ring --copy-bound\n"
               "  cleave bench all_to_all --ranks 4 --explain    which algorithm, why, its steps\n"
               "  mpirun -np 2 cleave bench all_reduce --transport mpi --algorithm native";
    }
    void declare(Options& options) override {
        options.positional("OP", operation_,
                           "all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, "
                           "all_to_all, barrier or send",
                           true);
        options.integer("--ranks", ranks_, 1, kMostRanks,
                        "ranks, threads of this process (default: mpirun's, or 2 without it)");
        options.text("--transport", "NAME", transport_, "inproc or mpi (default: mpi under mpirun, else inproc)");
        options.text("--algorithm", "NAME", algorithm_,
                     "automatic, direct, tree, halving_doubling, ring, hierarchical, or native "
                     "(the MPI library's own) (default: automatic)");
        options.integer("--min-bytes", options_.min_bytes, 1, kMostBytes,
                        "smallest message (default: 4096); sizes double");
        options.integer("--max-bytes", options_.max_bytes, 1, kMostBytes, "largest message (default: 67108864)");
        options.number("--elements", elements_, 1, kMostElements, "only this size, in elements; 1e8 is 100000000");
        options.text("--dtype", "NAME", dtype_, "f64, f32, bf16, i64, i32 or u8 (default: f32)");
        options.integer("--iterations", iterations_, 1, kMostCalls, "timed calls of each size (default: 20)");
        options.integer("--warmup", warmup_, 0, kMostCalls, "calls before them, not timed (default: 5)");
        options.flag("--copy-bound", options_.copy_bound, "also measure how fast all ranks copy as many bytes");
        options.flag("--no-fingerprints", no_fingerprints_,
                     "mpi: without the check that all ranks call the same collective");
        options.flag("--explain", options_.explain,
                     "name the algorithm and why it is chosen, print its steps; measure nothing");
    }

    int run() override {
        options_.op = comm::operation_from(operation_);
        options_.ranks = static_cast<int>(ranks_);
        if (!transport_.empty()) options_.transport = comm::transport_from(transport_);
        if (!algorithm_.empty()) options_.algorithm = comm::algorithm_from(algorithm_);
        if (!dtype_.empty()) options_.dtype = dtype_from(dtype_);
        if (iterations_ > 0) options_.iterations = static_cast<int>(iterations_);
        if (warmup_ >= 0) options_.warmup = static_cast<int>(warmup_);
        options_.elements = whole(elements_);
        options_.fingerprints = !no_fingerprints_;
        options_.json = json;
        return bench_collective(options_, stdout);
    }

  private:
    static constexpr std::int64_t kMostRanks = 1 << 20;
    static constexpr std::int64_t kMostCalls = 1'000'000'000;
    static constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
    static constexpr double kMostElements = 1e15;  // whole numbers of a double are exact up to there
    static std::int64_t whole(double elements) {
        if (elements != std::floor(elements))
            throw UserError("--elements: found {}; accepted: a whole number", elements);
        return static_cast<std::int64_t>(elements);
    }

    BenchOptions options_;
    std::string operation_;
    std::string transport_;
    std::string algorithm_;
    std::string dtype_;
    double elements_ = 0;
    std::int64_t ranks_ = 0;
    std::int64_t iterations_ = 0;
    std::int64_t warmup_ = -1;
    bool no_fingerprints_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() {
    return std::make_unique<BenchCommand>();
}

}  // namespace cleave::cli

#include "cli/bench_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include "base/json.h"
#include <vector>

#include "base/error.h"
#include "comm/launch.h"

namespace cleave::cli {
namespace {

using comm::Communicator;
using comm::Measurement;

std::vector<std::int64_t> sizes_of(const BenchOptions& options) {
    if (options.op == comm::Operation::barrier) return {0};
    if (options.elements > 0) return {options.elements};
    if (options.min_bytes < 1 || options.max_bytes < options.min_bytes)
        throw UserError("--min-bytes {} and --max-bytes {}: 1 <= min <= max is possible", options.min_bytes,
                        options.max_bytes);
    std::vector<std::int64_t> elements;
    for (std::int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2)
        elements.push_back(std::max<std::int64_t>(1, bytes / size_of(options.dtype)));
    return elements;
}

std::string_view algorithm_name(const BenchOptions& options, const Communicator& world, std::int64_t bytes) {
    if (options.op == comm::Operation::send) return "rendezvous";
    const bool automatic = options.algorithm == comm::Algorithm::automatic;
    return comm::name_of(automatic ? world.chosen(options.op, bytes) : options.algorithm);
}

double gigabytes(double bytes_per_second) {
    return bytes_per_second / 1e9;
}

void print_header(const BenchOptions& options, const Communicator& world, std::FILE* out) {
    fmt::print(out,
               "{} of {} over {}, {} ranks, sum; {} warm-up and {} timed calls; time of a call on each rank: mean, "
               "min, max over ranks\n"
               "algbw = bytes / time; busbw = {}; approximate = {} (many ranks: it is n/(n-1) of busbw{})\n",
               comm::name_of(options.op), name_of(options.dtype), comm::name_of(world.transport()), world.size(),
               options.warmup, options.iterations, comm::bus_formula(options.op),
               comm::approximate_bus_formula(options.op), world.size() == 2 ? ", here twice" : "");
    fmt::print(out, "{:>12} {:>12} {:>16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>11} {:>6}{}\n", "bytes", "elements",
               "algorithm", "mean us", "min us", "max us", "algbw GB/s", "busbw GB/s", "approximate", "wrong",
               options.copy_bound ? "  of copy bound" : "");
}

void print_row(const BenchOptions& options, const Communicator& world, const Measurement& m, std::FILE* out) {
    const double algbw = gigabytes(m.algorithm_bandwidth());
    fmt::print(out, "{:>12} {:>12} {:>16} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.3f} {:>10.3f} {:>11.3f} {:>6}", m.bytes,
               m.elements, algorithm_name(options, world, m.bytes), m.mean * 1e6, m.min * 1e6, m.max * 1e6, algbw,
               algbw * comm::bus_factor(options.op, world.size()), algbw * comm::approximate_bus_factor(options.op),
               m.wrong);
    if (options.copy_bound && m.copy_seconds > 0)
        fmt::print(out, "  {:5.1f} % ({})", 100 * m.copy_seconds / m.mean, m.copy_with);
    fmt::print(out, "\n");
    std::fflush(out);
}

Json to_json(const BenchOptions& options, const Communicator& world, const Measurement& m) {
    const double algbw = gigabytes(m.algorithm_bandwidth());
    Json time = Json::object();
    time.set("mean", m.mean * 1e6).set("min", m.min * 1e6).set("max", m.max * 1e6);
    Json row = Json::object();
    row.set("bytes", m.bytes).set("elements", m.elements);
    row.set("algorithm", algorithm_name(options, world, m.bytes)).set("time_us", std::move(time));
    row.set("algbw_gbs", algbw).set("busbw_gbs", algbw * comm::bus_factor(options.op, world.size()));
    row.set("busbw_approximate_gbs", algbw * comm::approximate_bus_factor(options.op)).set("wrong", m.wrong);
    if (options.copy_bound) row.set("copy_us", m.copy_seconds * 1e6);
    return row;
}

Json document(const BenchOptions& options, const Communicator& world, Json rows) {
    Json out = Json::object();
    out.set("operation", comm::name_of(options.op)).set("dtype", name_of(options.dtype));
    out.set("transport", comm::name_of(world.transport())).set("ranks", world.size());
    out.set("iterations", options.iterations).set("busbw_formula", comm::bus_formula(options.op));
    out.set("busbw_approximate_formula", comm::approximate_bus_formula(options.op)).set("results", std::move(rows));
    return out;
}

// Whether this process is the one that prints.
bool prints(const Communicator& world) {
    return world.rank() == 0;
}

void explain(const BenchOptions& options, const Communicator& world, std::FILE* out) {
    for (const std::int64_t elements : sizes_of(options)) {
        const std::int64_t bytes = elements * size_of(options.dtype);
        comm::Spec spec{options.op, options.algorithm, world.size(), 0, 0, {elements}};
        if (options.op == comm::Operation::barrier) spec.counts.clear();
        if (spec.algorithm == comm::Algorithm::automatic) {
            spec.algorithm = world.chosen(options.op, bytes);
            fmt::print(out, "{}\n", comm::explain_choice(options.op, world.size(), bytes, world.transport()));
        } else {
            fmt::print(out, "{} of {} bytes on {} ranks: {}: named by the user\n", comm::name_of(options.op), bytes,
                       world.size(), comm::name_of(spec.algorithm));
        }
        if (spec.algorithm == comm::Algorithm::native) {
            fmt::print(out, "  the MPI library's own; it has no step program, and its order of sums is its own\n");
            continue;
        }
        fmt::print(out, "  sums in the canonical order: {}\n",
                   comm::follows_canonical_order(spec.algorithm) ? "yes" : "no");
        const comm::Program program = comm::build_program(spec);
        for (int r = 0; r < world.size(); ++r)
            fmt::print(out, "  rank {} sends {} bytes and receives {}\n", r, program.bytes_sent(r, options.dtype),
                       program.bytes_received(r, options.dtype));
        fmt::print(out, "{}", comm::to_string(program));
    }
}

// Returns the number of wrong elements.
std::int64_t run(const BenchOptions& options, Communicator& world, std::FILE* out) {
    if (!options.json && prints(world)) print_header(options, world, out);
    const comm::MeasureOptions how{options.op,         options.algorithm, options.dtype,
                                   options.iterations, options.warmup,    options.copy_bound};
    std::int64_t wrong = 0;
    Json rows = Json::array();
    for (const std::int64_t elements : sizes_of(options)) {
        const Measurement m = comm::measure(world, how, elements);
        wrong += m.wrong;
        if (!prints(world)) continue;
        if (options.json)
            rows.push(to_json(options, world, m));
        else
            print_row(options, world, m, out);
    }
    if (options.json && prints(world)) fmt::print(out, "{}\n", document(options, world, std::move(rows)).dump(2));
    return wrong;
}

}  // namespace

int bench_collective(const BenchOptions& options, std::FILE* out) {
    if (options.iterations < 1 || options.warmup < 0)
        throw UserError("{} iterations after {} for warm-up: at least 1 and 0 are possible", options.iterations,
                        options.warmup);
    const bool explains = options.explain && options.op != comm::Operation::send;
    int ranks = options.ranks;
    const bool mpi = options.transport == comm::TransportKind::mpi || (!options.transport && comm::under_mpirun());
    if (ranks == 0 && !mpi) ranks = 2;
    std::int64_t wrong = 0;
    comm::run_ranks({.ranks = ranks, .transport = options.transport, .fingerprints = options.fingerprints},
                    [&](Communicator& world) {
                        if (explains) {
                            if (prints(world)) explain(options, world, out);
                            return;
                        }
                        const std::int64_t found = run(options, world, out);
                        if (prints(world) || world.transport() == comm::TransportKind::mpi) wrong = found;
                    });
    return wrong == 0 ? kExitOk : kExitNo;
}

}  // namespace cleave::cli

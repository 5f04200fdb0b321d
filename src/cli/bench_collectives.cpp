#include "cli/bench_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/words.h"
#include "base/wrap.h"
#include "cli/table_text.h"
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

// What the columns mean, for `n` ranks; every formula stands beside the number it makes.
void print_header(const BenchOptions& options, const Communicator& world, std::FILE* out) {
    const bool approximates = comm::bus_factor(options.op, 2) != comm::approximate_bus_factor(options.op);
    fmt::print(out, "{} of {} over {}, n = {}{}; {} warm-up and {}\n", comm::name_of(options.op),
               name_of(options.dtype), comm::name_of(world.transport()), counted(world.size(), "rank"),
               comm::reduces(options.op) ? ", sum" : "", options.warmup, counted(options.iterations, "timed call"));
    fmt::print(out,
               "bytes         the larger of a rank's two buffers, all ranks' pieces together\n"
               "mean min max  of the ranks' own times of one call in us; time = mean\n"
               "algbw         bytes / time in GB/s; 1 GB = 1e9 bytes\n"
               "busbw         {}: what each rank's link carries,\n"
               "              comparable over operations and n\n",
               comm::bus_formula(options.op));
    if (options.op == comm::Operation::all_reduce)
        fmt::print(out, "              = all that is sent, 2(n-1) x bytes, / (n x time)\n");
    fmt::print(out, "approximate   {}{}\n", comm::approximate_bus_formula(options.op),
               !approximates      ? ": here the same"
               : world.size() > 1 ? fmt::format(": busbw for many ranks, which leaves out (n-1)/n;\n"
                                                "              with n = {} it is {:.3g} times busbw",
                                                world.size(), static_cast<double>(world.size()) / (world.size() - 1))
                                  : ": busbw for many ranks");
    fmt::print(out, "wrong         elements of all results that are not what they must be\n");
    if (options.copy_bound)
        fmt::print(out,
                   "of copy       time in which all ranks at once copy as many bytes as the\n"
                   "              operation makes each read or write, / time\n");
    fmt::print(out, "{:>9} {:>16} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>5}\n", "bytes", "algorithm", "mean", "min",
               "max", "algbw", "busbw", options.copy_bound ? "of copy" : "approx.", "wrong");
}

void print_row(const BenchOptions& options, const Communicator& world, const Measurement& m, std::FILE* out) {
    const double algbw = gigabytes(m.algorithm_bandwidth());
    const double approximate = algbw * comm::approximate_bus_factor(options.op);
    // The approximation, which follows from busbw, gives way to the share of a copy.
    const std::string last = !options.copy_bound  ? fmt::format("{:.3f}", approximate)
                             : m.copy_seconds > 0 ? fmt::format("{:.1f} %", 100 * m.copy_seconds / m.mean)
                                                  : "";
    fmt::print(out, "{:>9} {:>16} {:>7} {:>7} {:>7} {:>7.3f} {:>7.3f} {:>7} {:>5}", m.bytes,
               algorithm_name(options, world, m.bytes), short_number(m.mean * 1e6), short_number(m.min * 1e6),
               short_number(m.max * 1e6), algbw, algbw * comm::bus_factor(options.op, world.size()), last, m.wrong);
    fmt::print(out, "\n");
    std::fflush(out);
}

Json json_of(const BenchOptions& options, const Communicator& world, const Measurement& m) {
    const double algbw = gigabytes(m.algorithm_bandwidth());
    Json row{{"bytes", m.bytes},
             {"elements", m.elements},
             {"algorithm", algorithm_name(options, world, m.bytes)},
             {"time_us", Json{{"mean", m.mean * 1e6}, {"min", m.min * 1e6}, {"max", m.max * 1e6}}},
             {"algbw_gbs", algbw},
             {"busbw_gbs", algbw * comm::bus_factor(options.op, world.size())},
             {"busbw_approximate_gbs", algbw * comm::approximate_bus_factor(options.op)},
             {"wrong", m.wrong}};
    if (options.copy_bound) {
        row.set("copy_us", m.copy_seconds * 1e6);
        row.set("copy_with", m.copy_with);
        row.set("copy_bound_ratio", m.copy_seconds / m.mean);
    }
    return row;
}

Json document_head(const BenchOptions& options, const Communicator& world) {
    return Json{{"operation", comm::name_of(options.op)},
                {"dtype", name_of(options.dtype)},
                {"transport", comm::name_of(world.transport())},
                {"ranks", world.size()}};
}

Json document(const BenchOptions& options, const Communicator& world, Json rows) {
    Json json = document_head(options, world);
    json.set("warmup", options.warmup);
    json.set("iterations", options.iterations);
    json.set("algbw_formula", "bytes / time");
    json.set("busbw_formula", comm::bus_formula(options.op));
    json.set("busbw_approximate_formula", comm::approximate_bus_formula(options.op));
    json.set("results", std::move(rows));
    return json;
}

// Whether this process is the one that prints.
bool prints(const Communicator& world) {
    return world.rank() == 0;
}

// What is done with a message of so many elements, and why.
struct Explanation {
    std::int64_t bytes;
    comm::Spec spec;
    std::string choice;                    // one sentence
    std::optional<comm::Program> program;  // none for native
};

Explanation explanation(const BenchOptions& options, const Communicator& world, std::int64_t elements) {
    using comm::Algorithm;
    const std::int64_t bytes = elements * size_of(options.dtype);
    // As measured: an operation in pieces cuts the message into one a rank.
    const std::int64_t count =
        comm::cut_into_pieces(options.op) ? (elements + world.size() - 1) / world.size() : elements;
    Explanation e{bytes, {options.op, options.algorithm, world.size(), 0, 0, {count}}, {}, {}};
    if (options.op == comm::Operation::barrier) e.spec.counts.clear();
    if (options.algorithm == Algorithm::automatic) {
        e.spec.algorithm = world.chosen(options.op, bytes);
        e.choice = comm::explain_choice(options.op, world.size(), bytes, world.transport());
    } else {
        e.choice = fmt::format("{} of {} on {} over {}: {}: named by the user", comm::name_of(options.op),
                               counted(bytes, "byte"), counted(world.size(), "rank"), comm::name_of(world.transport()),
                               comm::name_of(options.algorithm));
    }
    if (e.spec.algorithm != Algorithm::native) e.program = comm::build_program(e.spec);
    return e;
}

// Whether two messages take the same steps, in pieces of other lengths.
bool same_steps(const Explanation& a, const Explanation& b) {
    if (a.spec.algorithm != b.spec.algorithm || !a.program || !b.program) return a.spec.algorithm == b.spec.algorithm;
    const auto same_slots = [](const std::vector<comm::Slot>& x, const std::vector<comm::Slot>& y) {
        return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const comm::Slot& s, const comm::Slot& t) {
            return s.rank == t.rank && s.buffer == t.buffer;
        });
    };
    const auto same_moves = [&](const comm::Phase& x, const comm::Phase& y) {
        return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const comm::Move& m, const comm::Move& n) {
            return m.executor == n.executor && same_slots(m.sources, n.sources) &&
                   same_slots(m.destinations, n.destinations);
        });
    };
    return std::equal(a.program->phases.begin(), a.program->phases.end(), b.program->phases.begin(),
                      b.program->phases.end(), same_moves);
}

// Every line of `text` broken at the terminal's usual width, what follows a break further in.
std::string narrow(std::string_view text) {
    constexpr std::size_t kColumns = 80;
    std::string lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::size_t indent = std::min(text.find_first_not_of(' '), end);
        const std::string deeper(indent + 4, ' ');
        lines += std::string(indent, ' ') + wrapped(text.substr(indent, end - indent), deeper, kColumns) + "\n";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

void print_explanation(const BenchOptions& options, const Explanation& e, std::FILE* out) {
    fmt::print(out, "{}", narrow(e.choice));
    if (!e.program)
        return fmt::print(out, "  the MPI library's own; it has no step program, and its order of sums is its own\n");
    if (comm::reduces(options.op))
        fmt::print(out, "  sums in the canonical order: {}\n",
                   comm::follows_canonical_order(e.spec.algorithm) ? "yes" : "no, in the ring's own");
    for (int r = 0; r < e.spec.size; ++r)
        fmt::print(out, "  rank {} sends {} and receives {}\n", r,
                   counted(e.program->bytes_sent(r, options.dtype), "byte"),
                   e.program->bytes_received(r, options.dtype));
    fmt::print(out, "{}", narrow(comm::to_string(*e.program)));
}

Json json_of(const BenchOptions& options, const Explanation& e) {
    Json row{{"bytes", e.bytes},
             {"algorithm", comm::name_of(e.spec.algorithm)},
             {"why", e.choice},
             {"canonical_order", comm::follows_canonical_order(e.spec.algorithm)}};
    if (!e.program) return row;
    Json sent = Json::array();
    Json received = Json::array();
    for (int r = 0; r < e.spec.size; ++r) {
        sent.push(e.program->bytes_sent(r, options.dtype));
        received.push(e.program->bytes_received(r, options.dtype));
    }
    row.set("bytes_sent", std::move(sent));
    row.set("bytes_received", std::move(received));
    row.set("program", comm::to_string(*e.program));
    return row;
}

// The first of the sizes that take the same steps; the document has them all.
void explain(const BenchOptions& options, const Communicator& world, std::FILE* out) {
    std::vector<Explanation> all;
    for (const std::int64_t elements : sizes_of(options)) all.push_back(explanation(options, world, elements));
    if (options.json) {
        Json rows = Json::array();
        for (const Explanation& e : all) rows.push(json_of(options, e));
        return fmt::print(out, "{}\n", document_head(options, world).set("explained", std::move(rows)).dump(2));
    }
    for (std::size_t first = 0, last = 0; first < all.size(); first = last + 1) {
        last = first;
        while (last + 1 < all.size() && same_steps(all[first], all[last + 1])) ++last;
        print_explanation(options, all[first], out);
        if (last > first)
            fmt::print(out, "up to {} bytes the same steps, with pieces as much longer\n", all[last].bytes);
    }
}

// Returns the number of wrong elements.
std::int64_t run(const BenchOptions& options, Communicator& world, std::FILE* out) {
    const comm::MeasureOptions how{options.op,         options.algorithm, options.dtype,
                                   options.iterations, options.warmup,    options.copy_bound};
    std::int64_t wrong = 0;
    bool begun = false;
    Json rows = Json::array();
    for (const std::int64_t elements : sizes_of(options)) {
        const Measurement m = comm::measure(world, how, elements);
        wrong += m.wrong;
        if (!prints(world)) continue;
        if (options.json) {
            rows.push(json_of(options, world, m));
            continue;
        }
        // What the communicator refuses it refuses at the first call: then nothing has been printed.
        if (!std::exchange(begun, true)) print_header(options, world, out);
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
    if (options.explain && options.op == comm::Operation::send)
        throw UserError(
            "--explain is for collectives; send is one message, from the sender's buffer to the receiver's");
    int ranks = options.ranks;
    const bool mpi = options.transport == comm::TransportKind::mpi || (!options.transport && comm::under_mpirun());
    if (mpi && !comm::under_mpirun())
        throw UserError("--transport mpi: ranks are processes that mpirun starts: mpirun -n {} cleave bench {} ...",
                        std::max(2, ranks), comm::name_of(options.op));
    if (!mpi && comm::process_place().count > 1)
        throw UserError(
            "--transport inproc: its ranks are threads of one process, but mpirun has started {}; accepted: mpi, or "
            "the "
            "same without mpirun",
            comm::process_place().count);
    if (!mpi && options.algorithm == comm::Algorithm::native)
        throw UserError(
            "--algorithm native: it is the MPI library's own, for ranks that are processes: mpirun -n {} cleave bench "
            "{} "
            "--algorithm native",
            std::max(2, ranks), comm::name_of(options.op));
    if (ranks == 0 && !mpi) ranks = 2;
    std::int64_t wrong = 0;
    comm::run_ranks({.ranks = ranks, .transport = options.transport, .fingerprints = options.fingerprints},
                    [&](Communicator& world) {
                        if (options.explain) {
                            if (prints(world)) explain(options, world, out);
                            return;
                        }
                        const std::int64_t found = run(options, world, out);
                        if (prints(world) || world.transport() == comm::TransportKind::mpi) wrong = found;
                    });
    return wrong == 0 ? kExitOk : kExitNo;
}

}  // namespace cleave::cli

#include "comm/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/words.h"

namespace cleave::comm {
namespace {

constexpr std::string_view kBufferNames[] = {"in", "out", "scratch"};

std::string to_string(const std::vector<Slot>& slots, std::int64_t count) {
    std::string text;
    for (const Slot& s : slots)
        text += fmt::format("{}{}.{}[{}..{})", text.empty() ? "" : " ", s.rank,
                            kBufferNames[static_cast<std::size_t>(s.buffer)], s.offset, s.offset + count);
    return text;
}

// Calls f(from, to, bytes) for everything in `move` that crosses from one rank to another.
template <class F>
void for_each_crossing(const Move& move, DType dtype, F&& f) {
    for (const Slot& s : move.sources)
        if (s.rank != move.executor) f(s.rank, move.executor, move.count * element_bytes(s.buffer, dtype));
    for (const Slot& d : move.destinations)
        if (d.rank != move.executor) f(move.executor, d.rank, move.count * element_bytes(d.buffer, dtype));
}

template <class F>
void for_each_crossing(const Program& program, DType dtype, F&& f) {
    for (const Phase& phase : program.phases)
        for (const Move& move : phase) for_each_crossing(move, dtype, f);
}

std::int64_t bytes_of(const Program& program, int rank, DType dtype, std::vector<Slot> Move::*slots) {
    std::int64_t bytes = 0;
    for (const Phase& phase : program.phases)
        for (const Move& move : phase)
            if (move.executor == rank)
                for (const Slot& s : move.*slots) bytes += move.count * element_bytes(s.buffer, dtype);
    return bytes;
}

std::int64_t sum_of_pieces(const Spec& spec) {
    std::int64_t sum = 0;
    for (int r = 0; r < spec.size; ++r) sum += piece_count(spec, r);
    return sum;
}

}  // namespace

std::int64_t element_bytes(Buffer buffer, DType dtype) {
    return buffer == Buffer::scratch && dtype == DType::bf16 ? size_of(DType::f32) : size_of(dtype);
}

bool Program::finishes(const Move& move) const {
    return reduces(spec.operation) && move.destinations.front().buffer == Buffer::out &&
           move.sources.front().buffer != Buffer::out;
}

std::int64_t Program::bytes_on_link(int from, int to, DType dtype) const {
    std::int64_t bytes = 0;
    for_each_crossing(*this, dtype, [&](int f, int t, std::int64_t b) { bytes += f == from && t == to ? b : 0; });
    return bytes;
}

std::int64_t Program::bytes_sent(int rank, DType dtype) const {
    std::int64_t bytes = 0;
    for_each_crossing(*this, dtype, [&](int from, int, std::int64_t b) { bytes += from == rank ? b : 0; });
    return bytes;
}

std::int64_t Program::bytes_received(int rank, DType dtype) const {
    std::int64_t bytes = 0;
    for_each_crossing(*this, dtype, [&](int, int to, std::int64_t b) { bytes += to == rank ? b : 0; });
    return bytes;
}

std::int64_t Program::bytes_read(int rank, DType dtype) const {
    return bytes_of(*this, rank, dtype, &Move::sources);
}

std::int64_t Program::bytes_written(int rank, DType dtype) const {
    return bytes_of(*this, rank, dtype, &Move::destinations);
}

std::string to_string(const Program& program) {
    std::string text =
        fmt::format("{} by {} on {}: {}\n", name_of(program.spec.operation), name_of(program.spec.algorithm),
                    counted(program.spec.size, "rank"), counted(program.phases.size(), "phase"));
    for (std::size_t p = 0; p < program.phases.size(); ++p)
        for (const Move& move : program.phases[p])
            text += fmt::format("  phase {}, rank {}: {} {} -> {}\n", p, move.executor,
                                move.sources.size() > 1 ? "combine" : "copy", to_string(move.sources, move.count),
                                to_string(move.destinations, move.count));
    return text;
}

std::int64_t piece_count(const Spec& spec, int from, int to) {
    if (spec.counts.size() == 1) return spec.counts[0];
    const int index = spec.operation == Operation::all_to_all ? from * spec.size + to : from;
    return spec.counts[static_cast<std::size_t>(index)];
}

std::int64_t input_elements(const Spec& spec, int rank) {
    std::int64_t sum = 0;
    switch (spec.operation) {
        case Operation::broadcast: return rank == spec.root ? spec.counts[0] : 0;
        case Operation::reduce:
        case Operation::all_reduce: return spec.counts[0];
        case Operation::scatter: return rank == spec.root ? sum_of_pieces(spec) : 0;
        case Operation::reduce_scatter: return sum_of_pieces(spec);
        case Operation::gather:
        case Operation::all_gather: return piece_count(spec, rank);
        case Operation::all_to_all:
            for (int to = 0; to < spec.size; ++to) sum += piece_count(spec, rank, to);
            return sum;
        default: return 0;
    }
}

std::int64_t output_elements(const Spec& spec, int rank) {
    std::int64_t sum = 0;
    switch (spec.operation) {
        case Operation::broadcast:
        case Operation::all_reduce: return spec.counts[0];
        case Operation::reduce: return rank == spec.root ? spec.counts[0] : 0;
        case Operation::gather: return rank == spec.root ? sum_of_pieces(spec) : 0;
        case Operation::all_gather: return sum_of_pieces(spec);
        case Operation::scatter:
        case Operation::reduce_scatter: return piece_count(spec, rank);
        case Operation::all_to_all:
            for (int from = 0; from < spec.size; ++from) sum += piece_count(spec, from, rank);
            return sum;
        default: return 0;
    }
}

void check(const Spec& spec) {
    const auto n = static_cast<std::size_t>(spec.size);
    const auto given = spec.counts.size();
    const bool pieces = spec.operation != Operation::broadcast && spec.operation != Operation::reduce &&
                        spec.operation != Operation::all_reduce;
    const std::size_t unequal = spec.operation == Operation::all_to_all ? n * n : n;
    if (spec.operation != Operation::barrier && given != 1 && !(pieces && given == unequal))
        throw UserError("{} on {} was given {}; it takes {}", name_of(spec.operation), counted(spec.size, "rank"),
                        counted(given, "count"), pieces ? fmt::format("1 (equal pieces) or {}", unequal) : "1");
    for (const std::int64_t c : spec.counts)
        if (c < 0) throw UserError("{} was given a count of {}; counts are 0 or more", name_of(spec.operation), c);
    if (spec.root < 0 || spec.root >= spec.size)
        throw UserError("{} was given root {}; the group has ranks 0 to {}", name_of(spec.operation), spec.root,
                        spec.size - 1);
}

std::int64_t slice_begin(std::int64_t elements, int r, int n) {
    constexpr std::int64_t kLine = 64;
    if (r == n) return elements;
    const std::int64_t unit = elements >= kLine * n ? kLine : 1;
    return elements / unit * r / n * unit;
}

}  // namespace cleave::comm

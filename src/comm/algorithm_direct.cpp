// direct: one phase. Work is shared so that each byte of memory is read once and written once, by ranks in equal parts.
#include <numeric>

#include "comm/algorithm.h"

namespace cleave::comm {
namespace {

void add(Phase& phase, Move move) {
    if (move.count > 0) phase.push_back(std::move(move));
}

// Slots of a move that `executor` executes, on every rank that it is asked about.
struct Everyone {
    int size;
    int about;
    std::vector<Slot> of(int executor, Buffer buffer, std::int64_t offset) const {
        if (about != kAllRanks && about != executor) return {{about, buffer, offset}};
        std::vector<Slot> slots;
        slots.reserve(static_cast<std::size_t>(size));
        for (int r = 0; r < size; ++r) slots.push_back({r, buffer, offset});
        return slots;
    }
};

// Rank r hands slice r of the root's message to everyone but the root, whose buffer it is.
void broadcast(const Spec& spec, const Everyone& everyone, Phase& phase) {
    for (int r = 0; r < spec.size; ++r) {
        const auto begin = slice_begin(spec.counts[0], r, spec.size);
        const auto end = slice_begin(spec.counts[0], r + 1, spec.size);
        Move move{r, end - begin, {{spec.root, Buffer::in, begin}}, everyone.of(r, Buffer::out, begin)};
        std::erase_if(move.destinations, [&](const Slot& slot) { return slot.rank == spec.root; });
        if (spec.size > 1) add(phase, std::move(move));
    }
}

// Rank r combines slice r of everyone's input.
void reduce(const Spec& spec, const Everyone& everyone, Phase& phase) {
    for (int r = 0; r < spec.size; ++r) {
        const auto begin = slice_begin(spec.counts[0], r, spec.size);
        const auto end = slice_begin(spec.counts[0], r + 1, spec.size);
        add(phase, {r, end - begin, everyone.of(r, Buffer::in, begin),
                    spec.operation == Operation::all_reduce ? everyone.of(r, Buffer::out, begin)
                                                            : std::vector<Slot>{{spec.root, Buffer::out, begin}}});
    }
}

// scatter, gather, all_gather, reduce_scatter: rank r does all of piece r.
void pieces(const Spec& spec, const Everyone& everyone, Phase& phase) {
    std::int64_t offset = 0;
    for (int r = 0; r < spec.size; ++r) {
        const std::int64_t count = piece_count(spec, r);
        Move move{r, count, {}, {}};
        switch (spec.operation) {
            case Operation::scatter:
                move.sources = {{spec.root, Buffer::in, offset}};
                move.destinations = {{r, Buffer::out, 0}};
                break;
            case Operation::gather:
                move.sources = {{r, Buffer::in, 0}};
                move.destinations = {{spec.root, Buffer::out, offset}};
                break;
            case Operation::all_gather:
                move.sources = {{r, Buffer::in, 0}};
                move.destinations = everyone.of(r, Buffer::out, offset);
                break;
            default: move.sources = everyone.of(r, Buffer::in, offset); move.destinations = {{r, Buffer::out, 0}};
        }
        add(phase, std::move(move));
        offset += count;
    }
}

// Rank `to` fetches its piece from everyone, beginning with its right neighbour so that not all read one rank at once.
void all_to_all(const Spec& spec, Phase& phase) {
    const int n = spec.size;
    for (int to = 0; to < n; ++to) {
        for (int step = 1; step <= n; ++step) {
            const int from = (to + step) % n;
            std::int64_t source = 0;
            std::int64_t destination = 0;
            for (int d = 0; d < to; ++d) source += piece_count(spec, from, d);
            for (int s = 0; s < from; ++s) destination += piece_count(spec, s, to);
            add(phase,
                {to, piece_count(spec, from, to), {{from, Buffer::in, source}}, {{to, Buffer::out, destination}}});
        }
    }
}

// Everyone looks at everyone: moves of no elements.
void barrier(const Spec& spec, const Everyone& everyone, Phase& phase) {
    for (int r = 0; r < spec.size; ++r) phase.push_back({r, 0, everyone.of(r, Buffer::in, 0), {{r, Buffer::out, 0}}});
}

}  // namespace

Program direct_program(const Spec& spec, int about) {
    Program program{spec, {}, 0, 0};
    const Everyone everyone{spec.size, about};
    Phase& phase = program.phases.emplace_back();
    switch (spec.operation) {
        case Operation::broadcast: broadcast(spec, everyone, phase); break;
        case Operation::reduce:
        case Operation::all_reduce: reduce(spec, everyone, phase); break;
        case Operation::all_to_all: all_to_all(spec, phase); break;
        case Operation::barrier: barrier(spec, everyone, phase); break;
        default: pieces(spec, everyone, phase);
    }
    return program;
}

}  // namespace cleave::comm

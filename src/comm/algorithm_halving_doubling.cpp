// halving-doubling: reduce_scatter by exchanging halves at distances 1, 2, 4, ..., all_gather by the same way back.
//
// After distance d the ranks of an aligned block [b, b + 2d) hold the block's partial sums between them: piece p of the
// message is at rank b + p mod (the block's size). In the whole group (one block) that is rank p: piece p is where it
// belongs. For powers of two this is the known exchange of halves; for other sizes the last block is smaller and some
// pieces change their holder, and the same rule still holds. The order of sums is the canonical one: blocks join as in
// its tree.
#include <algorithm>

#include "comm/algorithm.h"

namespace cleave::comm {
namespace {

// The rank that holds piece p of the block of `width` ranks that contains rank r.
int holder(int size, int r, int p, int width) {
    const int b = r / width * width;
    return b + p % std::min(width, size - b);
}

// Scratch has two halves used in turn: a piece that changes its holder must not be overwritten before it is read.
void halve(const Pieces& pieces, bool into_place, Program& program) {
    const int n = pieces.size();
    const std::int64_t total = pieces.total();
    program.scratch_elements = 2 * total;
    std::int64_t half = 0;
    for (int d = 1; d < n; d *= 2) {
        Phase phase;
        const auto partial = [&](int r, int p) {  // piece p of the block of d ranks at r
            if (d == 1) return Slot{r, Buffer::in, pieces.offset(p)};
            return Slot{holder(n, r, p, d), Buffer::scratch, half + pieces.offset(p)};
        };
        for (int b = 0; b < n; b += 2 * d)
            for (int p = 0; p < n; ++p) {
                if (pieces.count(p) == 0) continue;
                const int executor = holder(n, b, p, 2 * d);
                Move move{executor, pieces.count(p), {partial(b, p)}, {}};
                if (b + d < n) move.sources.push_back(partial(b + d, p));
                if (2 * d >= n)
                    move.destinations = {{executor, Buffer::out, into_place ? pieces.offset(p) : 0}};
                else
                    move.destinations = {{executor, Buffer::scratch, total - half + pieces.offset(p)}};
                phase.push_back(std::move(move));
            }
        program.phases.push_back(std::move(phase));
        half = total - half;
    }
}

// The way back: the holder of a piece in a block hands it to the holders in the block's two halves.
void double_up(const Pieces& pieces, bool from_input, Program& program) {
    const int n = pieces.size();
    if (from_input) {
        Phase phase;
        for (int p = 0; p < n; ++p)
            if (pieces.count(p) > 0)
                phase.push_back({p, pieces.count(p), {{p, Buffer::in, 0}}, {{p, Buffer::out, pieces.offset(p)}}});
        program.phases.push_back(std::move(phase));
    }
    int d = 1;
    while (2 * d < n) d *= 2;
    for (; d >= 1; d /= 2) {
        Phase phase;
        for (int b = 0; b < n; b += 2 * d)
            for (int p = 0; p < n; ++p) {
                const Slot source{holder(n, b, p, 2 * d), Buffer::out, pieces.offset(p)};
                for (const int half : {b, b + d}) {
                    if (half >= n || pieces.count(p) == 0) continue;
                    const int to = holder(n, half, p, d);
                    if (to != source.rank)
                        phase.push_back({to, pieces.count(p), {source}, {{to, Buffer::out, pieces.offset(p)}}});
                }
            }
        program.phases.push_back(std::move(phase));
    }
}

}  // namespace

Program halving_doubling_program(const Spec& spec) {
    if (spec.size == 1) return direct_program(spec);
    Program program{spec, {}, 0, 0};
    const Pieces pieces(spec);
    if (spec.operation != Operation::all_gather) halve(pieces, spec.operation == Operation::all_reduce, program);
    if (spec.operation != Operation::reduce_scatter)
        double_up(pieces, spec.operation == Operation::all_gather, program);
    return program;
}

}  // namespace cleave::comm

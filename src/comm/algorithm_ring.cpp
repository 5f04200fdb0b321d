// ring: n - 1 phases, each rank takes from its left neighbour. Piece p is summed on its way from rank p + 1 round to
// rank p, one rank after another: not the canonical order.
#include "comm/algorithm.h"

namespace cleave::comm {
namespace {

// In phase s rank r adds its own input to the sum of piece r - s - 2 that its left neighbour has.
void reduce_round(const Pieces& pieces, bool into_place, Program& program) {
    const int n = pieces.size();
    program.scratch_elements = pieces.total();
    for (int s = 0; s < n - 1; ++s) {
        Phase phase;
        for (int r = 0; r < n; ++r) {
            const int left = (r + n - 1) % n;
            const int p = (r + 2 * n - s - 2) % n;
            if (pieces.count(p) == 0) continue;
            const std::int64_t at = pieces.offset(p);
            phase.push_back({r,
                             pieces.count(p),
                             {{left, s == 0 ? Buffer::in : Buffer::scratch, at}, {r, Buffer::in, at}},
                             {s == n - 2 ? Slot{r, Buffer::out, into_place ? at : 0} : Slot{r, Buffer::scratch, at}}});
        }
        program.phases.push_back(std::move(phase));
    }
}

// In phase s rank r takes piece r - s - 1 from its left neighbour.
void gather_round(const Pieces& pieces, bool from_input, Program& program) {
    const int n = pieces.size();
    if (from_input) {
        Phase phase;
        for (int r = 0; r < n; ++r)
            if (pieces.count(r) > 0)
                phase.push_back({r, pieces.count(r), {{r, Buffer::in, 0}}, {{r, Buffer::out, pieces.offset(r)}}});
        program.phases.push_back(std::move(phase));
    }
    for (int s = 0; s < n - 1; ++s) {
        Phase phase;
        for (int r = 0; r < n; ++r) {
            const int left = (r + n - 1) % n;
            const int p = (r + n - s - 1) % n;
            if (pieces.count(p) > 0)
                phase.push_back({r,
                                 pieces.count(p),
                                 {{left, Buffer::out, pieces.offset(p)}},
                                 {{r, Buffer::out, pieces.offset(p)}}});
        }
        program.phases.push_back(std::move(phase));
    }
}

}  // namespace

Program ring_program(const Spec& spec) {
    if (spec.size == 1) return direct_program(spec);
    Program program{spec, {}, 0, 0};
    const Pieces pieces(spec);
    if (spec.operation != Operation::all_gather) reduce_round(pieces, spec.operation == Operation::all_reduce, program);
    if (spec.operation != Operation::reduce_scatter)
        gather_round(pieces, spec.operation == Operation::all_gather, program);
    return program;
}

}  // namespace cleave::comm

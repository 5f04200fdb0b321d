// tree: log2 n phases. Combining goes up a tree over the rank index (distances 1, 2, 4, ...), which is the canonical
// order itself; a broadcast comes down the same tree, its ranks counted from the root.
#include <vector>

#include "comm/algorithm.h"

namespace cleave::comm {
namespace {

// Partial sums of ranks [r, r + 2d) gather at r. The last combination, at rank 0, is stored where the result belongs.
void combine_up(const Spec& spec, std::int64_t count, int result_rank, Program& program) {
    const int n = spec.size;
    program.scratch_elements = count;
    for (int d = 1; d < n; d *= 2) {
        const bool last = 2 * d >= n;
        // A rank without a right neighbour so far still holds its bare input, however many phases have passed.
        const auto holds = [&](int r) {
            for (int e = 1; e < d; e *= 2)
                if (r % (2 * e) == 0 && r + e < n) return Slot{r, Buffer::scratch, 0};
            return Slot{r, Buffer::in, 0};
        };
        Phase phase;
        for (int r = 0; r + d < n; r += 2 * d)
            phase.push_back({r,
                             count,
                             {holds(r), holds(r + d)},
                             {last ? Slot{result_rank, Buffer::out, 0} : Slot{r, Buffer::scratch, 0}}});
        program.phases.push_back(std::move(phase));
    }
}

// From the root's `from` buffer into everyone's out. Largest distance first, so that log2 n phases suffice.
void spread_down(const Spec& spec, std::int64_t count, Buffer from, Program& program) {
    const int n = spec.size;
    const auto rank = [&](int relative) { return (relative + spec.root) % n; };
    int d = 1;
    while (2 * d < n) d *= 2;
    for (; d >= 1; d /= 2) {
        Phase phase;
        for (int r = 0; r + d < n; r += 2 * d)
            phase.push_back(
                {rank(r + d), count, {{rank(r), r == 0 ? from : Buffer::out, 0}}, {{rank(r + d), Buffer::out, 0}}});
        program.phases.push_back(std::move(phase));
    }
}

}  // namespace

Program tree_program(const Spec& given) {
    if (given.size == 1) return direct_program(given);
    Program program{given, {}, 0, 0};
    const std::int64_t count = given.counts[0];
    if (count == 0) return program;
    Spec spec = given;
    if (spec.operation == Operation::broadcast) {
        spread_down(spec, count, Buffer::in, program);
    } else if (spec.operation == Operation::reduce) {
        combine_up(spec, count, spec.root, program);
    } else {
        spec.root = 0;
        combine_up(spec, count, 0, program);
        spread_down(spec, count, Buffer::out, program);
    }
    return program;
}

}  // namespace cleave::comm

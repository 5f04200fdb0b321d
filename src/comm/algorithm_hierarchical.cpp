// hierarchical: for links that are fast inside aligned groups of `inner` ranks and slow between them. Inner
// reduce_scatter, outer all_reduce between the ranks of one place in their groups, inner all_gather: only 1/inner of
// the message crosses the slow links. The order of sums is canonical because inner is a power of two and groups are
// aligned.
#include <bit>

#include "base/error.h"
#include "comm/algorithm.h"

namespace cleave::comm {

Program hierarchical_program(const Spec& spec) {
    const int n = spec.size;
    const int inner = spec.inner == 0 ? default_inner(n) : spec.inner;
    if (!std::has_single_bit(static_cast<unsigned>(inner)))
        throw UserError("hierarchical was given inner groups of {} ranks; the order of sums asks for a power of two",
                        inner);
    const int outer = n / inner;
    const std::int64_t count = spec.counts[0];
    Program program{spec, std::vector<Phase>(3), count, 0};
    for (int place = 0; place < inner; ++place) {
        const std::int64_t begin = slice_begin(count, place, inner);
        const std::int64_t length = slice_begin(count, place + 1, inner) - begin;
        if (length == 0) continue;
        std::vector<Slot> partials;
        for (int g = 0; g < outer; ++g) {
            const int r = g * inner + place;
            Move reduce{r, length, {}, {{r, Buffer::scratch, begin}}};
            Move gather{r, length, {{r, Buffer::scratch, begin}}, {}};
            for (int k = 0; k < inner; ++k) {
                reduce.sources.push_back({g * inner + k, Buffer::in, begin});
                gather.destinations.push_back({g * inner + k, Buffer::out, begin});
            }
            program.phases[0].push_back(std::move(reduce));
            program.phases[2].push_back(std::move(gather));
        }
        for (int g = 0; g < outer; ++g) {
            const std::int64_t first = slice_begin(length, g, outer);
            Move move{g * inner + place, slice_begin(length, g + 1, outer) - first, {}, {}};
            for (int k = 0; k < outer; ++k) move.sources.push_back({k * inner + place, Buffer::scratch, begin + first});
            move.destinations = move.sources;
            if (move.count > 0) program.phases[1].push_back(std::move(move));
        }
    }
    return program;
}

}  // namespace cleave::comm

// The interleaved schedule: each stage has several chunks, every p-th virtual stage.
#include <algorithm>

#include "parallel/schedule_orders.h"

namespace cleave {
namespace {

struct Turn {
    int microbatch;
    int chunk;
};

// The order in which forwards enter a stage: group by group through the first chunk, the second ...
std::vector<Turn> turns_of(const std::vector<int>& groups, int chunks) {
    std::vector<Turn> turns;
    int first = 0;
    for (const int size : groups) {
        for (int chunk = 0; chunk < chunks; ++chunk)
            for (int i = 0; i < size; ++i) turns.push_back({first + i, chunk});
        first += size;
    }
    return turns;
}

}  // namespace

std::vector<int> interleaved_groups(int stages, int microbatches) {
    const int count = std::max(1, microbatches / stages);
    std::vector<int> groups(static_cast<std::size_t>(count), microbatches / count);
    for (int i = 0; i < microbatches % count; ++i) ++groups[static_cast<std::size_t>(i)];
    return groups;
}

// Stage s does (v - 1) g + 2 (p - 1 - s) + 1 forwards before its first backward, g being the first group's size: the
// last stage has then done the first microbatch's last chunk, and every stage before it has two more on their way, one
// down and one back.
ComputeOrder interleaved_order(int stages, int microbatches, int chunks) {
    const std::vector<int> groups = interleaved_groups(stages, microbatches);
    const std::vector<Turn> turns = turns_of(groups, chunks);
    ComputeOrder order;
    for (int stage = 0; stage < stages; ++stage) {
        const std::size_t ahead = static_cast<std::size_t>(chunks - 1) * static_cast<std::size_t>(groups[0]) +
                                  2 * static_cast<std::size_t>(stages - 1 - stage) + 1;
        Schedule list;
        std::size_t forwards = 0;
        const auto forward = [&] {
            if (forwards == turns.size()) return;
            list.push_back({ActionType::forward, turns[forwards].microbatch, turns[forwards].chunk, false});
            ++forwards;
        };
        while (forwards < std::min(ahead, turns.size())) forward();
        for (const Turn& turn : turns) {
            list.push_back({ActionType::backward, turn.microbatch, chunks - 1 - turn.chunk, false});
            forward();
        }
        order.push_back(std::move(list));
    }
    return order;
}

}  // namespace cleave

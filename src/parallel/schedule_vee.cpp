// Schedules with two chunks a stage, laid out as a vee: the first stage has both ends of the model, the last its
// middle.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "parallel/schedule_orders.h"

namespace cleave {
namespace {

// A list that counts its microbatches: each next action of a type and chunk takes the next one.
class CountedList {
  public:
    void add(ActionType type, int chunk) { list_.push_back({type, done(type, chunk)++, chunk, false}); }
    void split_backward(int chunk) {
        add(ActionType::input_gradient, chunk);
        add(ActionType::weight_gradient, chunk);
    }
    int& done(ActionType type, int chunk) {
        return done_[static_cast<std::size_t>(type)][static_cast<std::size_t>(chunk)];
    }
    // Without the microbatches from `end` on, which were there to keep the pattern.
    Schedule below(int end) {
        std::erase_if(list_, [end](const ScheduleAction& action) { return action.microbatch >= end; });
        return std::move(list_);
    }

  private:
    Schedule list_;
    std::array<std::array<int, 2>, kActionTypes> done_{};
};

// Warm-up: forwards of the first chunk until the first one is back at this stage for its second, then both in turn
// until its backward comes, then second chunks' forwards with their backwards. In the steady part each stage does both
// chunks' forward and backward in turn; in the end the weight gradients wait, so that input gradients go on.
Schedule zero_bubble_vee_list(int stages, int stage, int microbatches) {
    const auto F = ActionType::forward;
    const int pattern = std::max(microbatches, 2 * stages - 1);
    CountedList list;
    for (int i = 0; i < 2 * (stages - stage) - 1; ++i) list.add(F, 0);
    for (int i = 0; i < stage; ++i) {
        list.add(F, 1);
        list.add(F, 0);
    }
    const auto second_chunk = [&] {
        list.add(F, 1);
        list.split_backward(1);
    };
    for (int i = 0; i < stages - stage; ++i) second_chunk();
    while (list.done(F, 1) < pattern) {
        if (list.done(F, 0) < pattern) list.add(F, 0);
        list.split_backward(0);
        second_chunk();
    }
    for (int i = 0; i < stage; ++i) {
        list.add(ActionType::input_gradient, 0);
        list.add(ActionType::input_gradient, 1);
    }
    for (int i = 0; i < stages - stage; ++i) list.split_backward(0);
    for (const int chunk : {1, 0})
        for (int i = 0; i < stage; ++i) list.add(ActionType::weight_gradient, chunk);
    return list.below(microbatches);
}

// The *building block*: when a stage does the four passes of the first microbatch, in units of one action; those of
// microbatch k come 6 k later, six being the actions of two chunks.
constexpr int kBlock = 6;
struct VeeBlock {
    std::array<ScheduleAction, 4> passes;
    std::array<std::vector<int>, 4> start;  // of each pass, by stage

    bool collides() const {
        for (std::size_t stage = 0; stage < start[0].size(); ++stage)
            for (std::size_t a = 0; a < 4; ++a)
                for (std::size_t b = 0; b < a; ++b)
                    if ((start[a][stage] - start[b][stage]) % kBlock == 0) return true;
        return false;
    }
};

// Activations of a stage in the repetition where each weight gradient takes the first free place behind its input
// gradient: what the block needs.
int held_by(const VeeBlock& block, std::size_t stage) {
    std::array<bool, kBlock> taken{};
    for (std::size_t pass = 0; pass < 4; ++pass)
        taken[static_cast<std::size_t>(block.start[pass][stage] % kBlock)] = true;
    std::array<int, 2> end{};  // of the weight gradient of each chunk
    for (const std::size_t chunk : {1U, 0U}) {
        int at = block.start[chunk == 1 ? 2 : 3][stage] + 1;
        while (taken[static_cast<std::size_t>(at % kBlock)]) ++at;
        taken[static_cast<std::size_t>(at % kBlock)] = true;
        end[chunk] = at + 1;
    }
    int most = 0;
    for (int phase = 0; phase < kBlock; ++phase) {  // at each moment of a period, the blocks that are between the two
        int held = 0;
        for (const std::size_t chunk : {0U, 1U})
            for (int t = block.start[chunk][stage]; t < end[chunk]; ++t) held += t % kBlock == phase ? 1 : 0;
        most = std::max(most, held);
    }
    return most;
}

int held_by(const VeeBlock& block) {
    int most = 0;
    for (std::size_t stage = 0; stage < block.start[0].size(); ++stage) most = std::max(most, held_by(block, stage));
    return most;
}

// `waits`: idle time at the ends of the vee, before the second chunk's forward, its backward, the first chunk's
// backward.
VeeBlock vee_block(int stages, const VeeOffsets& offsets, const std::array<int, 3>& waits) {
    const auto F = ActionType::forward;
    const auto I = ActionType::input_gradient;
    VeeBlock block{{{{F, 0, 0, false}, {F, 0, 1, false}, {I, 0, 1, false}, {I, 0, 0, false}}}, {}};
    for (auto& start : block.start) start.assign(static_cast<std::size_t>(stages), 0);
    const int last = stages - 1;
    const int up = last * offsets.forward_down + 1 + waits[0];            // forward of the last stage's second chunk
    const int down = up + last * offsets.forward_up + 1 + waits[1];       // backward of the first stage's second chunk
    const int home = down + last * offsets.backward_down + 1 + waits[2];  // backward of the last stage's first chunk
    for (int stage = 0; stage < stages; ++stage) {
        const auto s = static_cast<std::size_t>(stage);
        block.start[0][s] = stage * offsets.forward_down;
        block.start[1][s] = up + (last - stage) * offsets.forward_up;
        block.start[2][s] = down + stage * offsets.backward_down;
        block.start[3][s] = home + (last - stage) * offsets.backward_up;
    }
    return block;
}

// Of the blocks in which no two passes of a stage ever meet the one that holds the least, and of those the first.
VeeBlock best_block(int stages, const VeeOffsets& offsets) {
    VeeBlock best;
    int least = 0;
    for (int i = 0; i < kBlock * kBlock * kBlock; ++i) {
        const VeeBlock block = vee_block(stages, offsets, {i / (kBlock * kBlock), i / kBlock % kBlock, i % kBlock});
        if (block.collides()) continue;
        const int held = held_by(block);
        if (least != 0 && held >= least) continue;
        best = block;
        least = held;
    }
    CLEAVE_CHECK(least != 0, "no block of {} stages", stages);
    return best;
}

// The forwards and input gradients of a stage in the order in which repeated blocks start them.
Schedule repeated(const VeeBlock& block, int stage, int microbatches) {
    std::vector<std::pair<std::int64_t, ScheduleAction>> timed;
    for (std::size_t pass = 0; pass < 4; ++pass)
        for (int m = 0; m < microbatches; ++m) {
            ScheduleAction action = block.passes[pass];
            action.microbatch = m;
            const int start = block.start[pass][static_cast<std::size_t>(stage)];
            timed.emplace_back(start + std::int64_t{kBlock} * m, action);
        }
    std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Schedule list;
    for (const auto& [start, action] : timed) list.push_back(action);
    return list;
}

}  // namespace

ComputeOrder zero_bubble_vee_order(int stages, int microbatches) {
    ComputeOrder order;
    for (int stage = 0; stage < stages; ++stage) order.push_back(zero_bubble_vee_list(stages, stage, microbatches));
    return order;
}

ComputeOrder controllable_memory_order(int stages, int microbatches, const VeeOffsets& offsets,
                                       const ScheduleDurations& durations) {
    const VeeBlock block = best_block(stages, offsets);
    PipelineSchedule schedule{"", stages, 2, microbatches, Route::vee, {}};
    for (int stage = 0; stage < stages; ++stage) schedule.of_stage.push_back(repeated(block, stage, microbatches));
    place_weight_gradients(schedule, held_by(block), durations);
    return std::move(schedule.of_stage);
}

}  // namespace cleave

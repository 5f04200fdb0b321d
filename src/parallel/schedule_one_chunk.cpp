// Schedules with one chunk a stage.
#include <algorithm>

#include "parallel/schedule_orders.h"

namespace cleave {
namespace {

// `ahead` forwards, then a backward and a forward in turn. Where `behind` is not negative backwards are split, and the
// weight gradient of a microbatch stands behind the input gradient of the `behind`-th after it.
Schedule alternating(int microbatches, int ahead, int behind) {
    const bool split = behind >= 0;
    Schedule list;
    int forwards = 0;
    int weights = 0;
    const auto forward = [&] {
        if (forwards < microbatches) list.push_back({ActionType::forward, forwards++, 0, false});
    };
    const auto weight = [&] { list.push_back({ActionType::weight_gradient, weights++, 0, false}); };
    while (forwards < std::min(ahead, microbatches)) forward();
    for (int backward = 0; backward < microbatches; ++backward) {
        list.push_back({split ? ActionType::input_gradient : ActionType::backward, backward, 0, false});
        if (split && backward >= behind) weight();
        forward();
    }
    while (split && weights < microbatches) weight();
    return list;
}

template <class Make>
ComputeOrder each_stage(int stages, Make&& make) {
    ComputeOrder order;
    for (int stage = 0; stage < stages; ++stage) order.push_back(make(stage));
    return order;
}

}  // namespace

ComputeOrder naive_order(int stages, int microbatches) {
    return each_stage(stages, [&](int) { return alternating(microbatches, 1, -1); });
}

ComputeOrder gpipe_order(int stages, int microbatches) {
    return each_stage(stages, [&](int) { return alternating(microbatches, microbatches, -1); });
}

ComputeOrder one_forward_one_backward_order(int stages, int microbatches) {
    return each_stage(stages, [&](int stage) { return alternating(microbatches, stages - stage, -1); });
}

ComputeOrder zero_bubble_h1_order(int stages, int microbatches) {
    return each_stage(stages, [&](int stage) { return alternating(microbatches, stages - stage, stage); });
}

ComputeOrder zero_bubble_h2_order(int stages, int microbatches) {
    return each_stage(stages,
                      [&](int stage) { return alternating(microbatches, 2 * (stages - stage) - 1, 2 * stage); });
}

}  // namespace cleave

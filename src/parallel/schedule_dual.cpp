// DualPipe and its half, the vee. Both are one pattern: `half` stages from an end of the pipeline to its middle, and
// two flows of microbatches, the one that enters at the end (0) and the one that comes back from the middle (1). In
// DualPipe the two ends mirror each other, and flow 1 is the other end's flow 0; in the vee flow 1 is flow 0's own way
// back.
#include <array>

#include "parallel/schedule_orders.h"

namespace cleave {
namespace {

class DualList {
  public:
    // Chunks and first microbatches of the flows 0 and 1.
    DualList(std::array<int, 2> chunks, std::array<int, 2> first)
        : chunks_(chunks), next_{first, first, first, first} {}

    void forward(int flow) { add(ActionType::forward, flow); }
    void backward(int flow) {
        add(ActionType::backward, flow);
        // Whole backwards take the numbers of input gradients too.
        next(ActionType::input_gradient, flow) = next(ActionType::backward, flow);
    }
    void input_gradient(int flow) {
        add(ActionType::input_gradient, flow);
        next(ActionType::backward, flow) = next(ActionType::input_gradient, flow);
        ScheduleAction weight = list_.back();
        weight.type = ActionType::weight_gradient;
        weights_.push_back(weight);
    }
    // The oldest one that waits.
    void weight_gradient() { list_.push_back(weights_[done_++]); }

    Schedule take() { return std::move(list_); }

  private:
    int& next(ActionType type, int flow) {
        return next_[static_cast<std::size_t>(type)][static_cast<std::size_t>(flow)];
    }
    void add(ActionType type, int flow) {
        list_.push_back({type, next(type, flow)++, chunks_[static_cast<std::size_t>(flow)], false});
    }

    Schedule list_;
    Schedule weights_;
    std::size_t done_ = 0;
    std::array<int, 2> chunks_;
    std::array<std::array<int, 2>, 4> next_;
};

// The eight parts of the published pattern for the stage that is `from_end` stages from its end; `each`: microbatches
// of a flow, at least 2 half.
void fill_dual(DualList& list, int half, int from_end, int each) {
    const int inner = half - from_end - 1;
    for (int i = 0; i < 2 * inner; ++i) list.forward(0);
    for (int i = 0; i <= from_end; ++i) {
        list.forward(0);
        list.forward(1);
    }
    for (int i = 0; i < inner; ++i) {
        list.input_gradient(1);
        list.weight_gradient();
        list.forward(1);
    }
    for (int i = 0; i < each - 2 * half + from_end + 1; ++i)
        for (const int flow : {0, 1}) {
            list.forward(flow);
            list.backward(1 - flow);
        }
    for (int i = 0; i < inner; ++i) {
        list.backward(1);
        list.forward(1);
        list.backward(0);
    }
    // Of these backwards the second half leave their weight gradients for later.
    for (int i = 0; i < 2 * (from_end + 1); ++i) {
        const int flow = i % 2 == 0 ? 1 : 0;
        if (i > from_end)
            list.input_gradient(flow);
        else
            list.backward(flow);
    }
    for (int i = 0; i < inner; ++i) {
        list.weight_gradient();
        list.input_gradient(0);
    }
    for (int i = 0; i <= from_end; ++i) list.weight_gradient();
}

}  // namespace

ComputeOrder dualpipe_order(int stages, int microbatches) {
    const int half = stages / 2;
    const int each = microbatches / 2;
    ComputeOrder order;
    for (int stage = 0; stage < stages; ++stage) {
        const bool first_end = stage < half;
        DualList list(first_end ? std::array{0, 1} : std::array{1, 0},
                      first_end ? std::array{0, each} : std::array{each, 0});
        fill_dual(list, half, first_end ? stage : stages - 1 - stage, each);
        order.push_back(list.take());
    }
    return order;
}

ComputeOrder dualpipe_vee_order(int stages, int microbatches) {
    ComputeOrder order;
    for (int stage = 0; stage < stages; ++stage) {
        DualList list({0, 1}, {0, 0});
        fill_dual(list, stages, stage, microbatches);
        order.push_back(list.take());
    }
    return order;
}

}  // namespace cleave

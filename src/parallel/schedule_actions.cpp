#include "parallel/schedule_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cleave {
namespace {

struct ActionName {
    std::string_view letters;
    std::string_view words;
};
constexpr std::array<ActionName, kActionTypes> kActionNames = {{{"F", "forward"},
                                                                {"B", "backward"},
                                                                {"I", "input gradient"},
                                                                {"W", "weight gradient"},
                                                                {"SA", "send of the activation"},
                                                                {"RA", "receive of the activation"},
                                                                {"SG", "send of the gradient"},
                                                                {"RG", "receive of the gradient"},
                                                                {"R", "reduce"},
                                                                {"O", "optimizer"}}};

}  // namespace

std::string_view words_of(ActionType type) {
    return kActionNames[static_cast<std::size_t>(type)].words;
}

std::string_view letters_of(ActionType type) {
    return kActionNames[static_cast<std::size_t>(type)].letters;
}

std::string text_of(const ScheduleAction& action) {
    if (action.type == ActionType::reduce || action.type == ActionType::optimizer)
        return std::string(letters_of(action.type));
    return action.chunk == 0 ? fmt::format("{}{}", letters_of(action.type), action.microbatch)
                             : fmt::format("{}{}@{}", letters_of(action.type), action.microbatch, action.chunk);
}

int neighbour_of(const PipelineSchedule& schedule, int virtual_stage, ActionType type) {
    const bool up =
        type == ActionType::forward || type == ActionType::send_activation || type == ActionType::receive_gradient;
    const int neighbour = up ? virtual_stage + 1 : virtual_stage - 1;
    return neighbour < schedule.virtual_stages() ? neighbour : -1;
}

std::vector<int> peak_held(const PipelineSchedule& schedule) {
    std::vector<int> peaks;
    for (const Schedule& list : schedule.of_stage) {
        int held = 0;
        int peak = 0;
        for (const ScheduleAction& action : list) {
            held += action.type == ActionType::forward ? 1 : makes_weight_gradients(action.type) ? -1 : 0;
            peak = std::max(peak, held);
        }
        peaks.push_back(peak);
    }
    return peaks;
}

MessageCount messages_of(const PipelineSchedule& schedule) {
    MessageCount count;
    for (const Schedule& list : schedule.of_stage)
        for (const ScheduleAction& action : list) {
            count.activations += action.type == ActionType::send_activation ? 1 : 0;
            count.gradients += action.type == ActionType::send_gradient ? 1 : 0;
        }
    return count;
}

}  // namespace cleave

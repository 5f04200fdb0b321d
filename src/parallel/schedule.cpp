#include "parallel/schedule.h"

namespace cleave {

Schedule single_stage_schedule(int microbatches) {
    using Type = ScheduleAction::Type;
    Schedule schedule;
    for (int m = 0; m < microbatches; ++m) {
        schedule.push_back({Type::forward, m});
        schedule.push_back({Type::backward, m, m == microbatches - 1});
    }
    schedule.push_back({Type::reduce});
    schedule.push_back({Type::optimizer});
    return schedule;
}

}  // namespace cleave

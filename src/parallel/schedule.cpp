#include "parallel/schedule.h"

#include "base/error.h"

namespace cleave {

int PipelineSchedule::virtual_stage_of(int stage, int chunk) const {
    CLEAVE_CHECK(stage >= 0 && stage < stages && chunk >= 0 && chunk < chunks, "chunk {} of stage {}", chunk, stage);
    switch (route) {
        case Route::round_robin: return chunk * stages + stage;
        case Route::vee: return chunk == 0 ? stage : 2 * stages - 1 - stage;
        case Route::mirrored: return chunk == 0 ? stage : stages - 1 - stage;
    }
    CLEAVE_CHECK(false, "no such route");
}

PipelineSchedule::Place PipelineSchedule::place_of(int virtual_stage, int microbatch) const {
    CLEAVE_CHECK(virtual_stage >= 0 && virtual_stage < virtual_stages(), "virtual stage {}", virtual_stage);
    switch (route) {
        case Route::round_robin: return {virtual_stage % stages, virtual_stage / stages};
        case Route::vee:
            return virtual_stage < stages ? Place{virtual_stage, 0} : Place{2 * stages - 1 - virtual_stage, 1};
        case Route::mirrored:
            return 2 * microbatch < microbatches ? Place{virtual_stage, 0} : Place{stages - 1 - virtual_stage, 1};
    }
    CLEAVE_CHECK(false, "no such route");
}

Schedule single_stage_schedule(int microbatches) {
    using Type = ScheduleAction::Type;
    Schedule schedule;
    for (int m = 0; m < microbatches; ++m) {
        schedule.push_back({Type::forward, m, 0, false});
        schedule.push_back({Type::backward, m, 0, m == microbatches - 1});
    }
    schedule.push_back({Type::reduce, -1, 0, false});
    schedule.push_back({Type::optimizer, -1, 0, false});
    return schedule;
}

}  // namespace cleave

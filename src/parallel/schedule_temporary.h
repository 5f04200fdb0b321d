#pragma once
#include <string>

#include "parallel/pipeline.h"
#include "parallel/schedule.h"

namespace cleave {
PipelineForm temporary_form(const std::string& kind, int stages, int chunks);
PipelineSchedule temporary_schedule(const std::string& kind, const PipelineForm& form, int microbatches);
}  // namespace cleave

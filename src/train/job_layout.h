// From a job to the arrangement of its ranks, the placements of its model and the order of its step.
// Thread rule: pure functions.
#pragma once

#include "model/transformer.h"
#include "parallel/pipeline.h"
#include "parallel/schedule_kinds.h"
#include "train/job.h"

namespace cleave {

// The mesh that a job asks for on `ranks` ranks. The job is checked.
Mesh mesh_of(const Job& job, int ranks);
ModelLayouts layouts_of(const Job& job, const Mesh& mesh);
// How its model is cut by depth (pipeline.layers, or by work), and the order of a step with so many microbatches.
PipelineForm pipeline_form(const Job& job);
PipelineSchedule pipeline_schedule(const Job& job, int microbatches);
// For people: "1f1b, stages with 3+4+4+3 layers".
std::string pipeline_text(const Job& job);
ScheduleOptions schedule_options(const Job& job, int microbatches);

// How long the head of its model takes, in layers, by their matrix products.
double head_in_layers(const Job& job);

// The job's model on an engine of its mesh, with this rank's parameters allocated.
Transformer model_of(const Job& job, Engine& engine);

}  // namespace cleave

// Pipeline parallelism: the model is cut by depth into virtual stages, in the order of its layers; parallel/schedule.h
// says which of them each stage (coordinate of pp) holds. pp has no placement: a parameter has a list of stages that
// own it. Where there are two (a token table that is tied to the output matrix, or every parameter under
// Route::mirrored), each owner has a term of the gradient, and both add them in the order of stages, so that their
// copies stay equal to the bit; the first owner counts the parameter in the gradient norm and saves it.
// Thread rule: values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "parallel/schedule.h"

namespace cleave {

// How a model is cut, whatever the schedule's order and microbatches.
struct PipelineForm {
    int stages = 1;
    int chunks = 1;
    Route route = Route::round_robin;
    std::vector<std::int64_t> layers;  // of each virtual stage; empty: evenly

    int virtual_stages() const { return route == Route::mirrored ? stages : stages * chunks; }
    // Of a stage; the same as PipelineSchedule's.
    int virtual_stage_of(int stage, int chunk) const;
    // The stages that hold it, ascending.
    std::vector<int> owners_of(int virtual_stage) const;
};

// The place that holds a virtual stage; of two, the one of chunk 0.
PipelineSchedule::Place first_place(const PipelineForm& form, int virtual_stage);

// What one virtual stage holds of a model: the embedding where it is the first, layers [begin, end), and the head where
// it is the last.
struct ModelPart {
    bool embedding = true;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool head = true;
};

// So that the virtual stage with most work has as little as possible, where the head takes as long as `head` layers
// (the embedding is a look-up). Every one has a layer where there are enough; what does not divide goes to the middle.
std::vector<std::int64_t> distribute_layers(std::int64_t layers, int virtual_stages, double head);
// Of all virtual stages, in order.
std::vector<ModelPart> model_parts(const PipelineForm& form, std::int64_t layers);

// The axis pp of a mesh, how many stages it has, and a rank's; one stage where the mesh has no such axis.
AxisId pipeline_axis(const Mesh& mesh);
int pipeline_stages(const Mesh& mesh);
int stage_of_pipeline(const Mesh& mesh, int rank);

// Host numbers, added over the stages: each has terms of its own or zeros. Nothing happens where there is one stage.
void sum_over_stages(Engine& engine, std::span<double> values, std::string_view name);

// The sum over the stages of a scalar that each has a term of, read on all of them; `stated` on the virtual engine.
double read_over_stages(Engine& engine, const Tensor& term, double stated = 1);

}  // namespace cleave

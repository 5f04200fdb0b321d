#include "train/job_layout.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/words.h"
#include "parallel/data_parallel.h"
#include "parallel/schedule_file.h"
#include "parallel/schedule_kinds.h"
#include "parallel/sequence_parallel.h"
#include "parallel/tensor_parallel.h"
#include "parallel/zero.h"
#include "train/pipeline_check.h"

namespace cleave {

namespace {

constexpr std::size_t kMostScheduleText = std::size_t{1} << 26;

}  // namespace

Mesh mesh_of(const Job& job, int ranks) {
    Mesh mesh({{"pp", job.mesh.pp}, {"dp", data_parallel_ranks(job, ranks)}, {"cp", job.mesh.cp}, {"tp", job.mesh.tp}});
    if (job.zero.stage > 0) split_for_zero(mesh, job.zero.group);
    add_head_axes(mesh, job.model.key_value_heads(), job.model.query_group());
    return mesh;
}

ModelLayouts layouts_of(const Job& job, const Mesh& mesh) {
    ModelLayouts layouts = data_parallel_layouts(mesh);
    add_tensor_parallelism(layouts, mesh);
    if (job.mesh.tp > 1) layouts.chunks = job.tensor_parallel_chunks;
    if (job.sequence_parallel)
        add_sequence_parallelism(layouts, job.sequence_parallel_inputs == SequenceInputs::gathered);
    return layouts;
}

namespace {

PipelineSchedule schedule_in_file(const Job& job) {
    const std::string& path = job.pipeline.schedule_file;
    return parse_schedule(read_text_file(path, kMostScheduleText), path, {});
}

}  // namespace

PipelineForm pipeline_form(const Job& job) {
    if (job.mesh.pp == 1) return {};
    PipelineForm form;
    form.stages = job.mesh.pp;
    if (job.pipeline.schedule_file.empty()) {
        const ScheduleKind* kind = find_schedule_kind(job.pipeline.schedule);
        CLEAVE_CHECK(kind != nullptr, "{} is no schedule", job.pipeline.schedule);
        form.chunks = job.pipeline.chunks == 0 ? kind->chunks : job.pipeline.chunks;
        form.route = kind->route;
    } else {
        const PipelineSchedule schedule = schedule_in_file(job);
        form.chunks = schedule.chunks;
        form.route = schedule.route;
    }
    form.layers = job.pipeline.layers.empty()
                      ? distribute_layers(job.model.layers, form.virtual_stages(), head_in_layers(job))
                      : layer_counts(job.pipeline.layers).value();
    return form;
}

double head_in_layers(const Job& job) {
    const ModelConfig& m = job.model;
    const auto heads = static_cast<double>(m.heads * m.head_channels());
    const auto keys = static_cast<double>(m.key_value_heads() * m.head_channels());
    const auto width = static_cast<double>(m.width);
    const double mlp = (m.family == Family::gpt2 ? 2 : 3) * width * static_cast<double>(m.hidden_mlp());
    // Attention over the unmasked half: two products a head.
    const double attention = 2 * width * (heads + keys) + heads * static_cast<double>(m.context);
    const double again = job.recompute == Recompute::full ? 4.0 / 3 : 1;  // a third forward pass beside two of backward
    return width * static_cast<double>(m.vocabulary) / (again * (mlp + attention));
}

PipelineSchedule pipeline_schedule(const Job& job, int microbatches) {
    if (job.mesh.pp == 1) {
        PipelineSchedule schedule;
        schedule.microbatches = microbatches;
        schedule.of_stage = {single_stage_schedule(microbatches)};
        return schedule;
    }
    if (!job.pipeline.schedule_file.empty()) return schedule_in_file(job);
    return make_schedule(schedule_options(job, microbatches));
}

std::string pipeline_text(const Job& job) {
    const PipelineForm form = pipeline_form(job);
    return fmt::format("{}, stages{} with {} layers",
                       job.pipeline.schedule_file.empty() ? job.pipeline.schedule : job.pipeline.schedule_file,
                       form.chunks == 1 ? "" : fmt::format(" of {}", counted(form.chunks, "chunk")),
                       fmt::join(form.layers, "+"));
}

ScheduleOptions schedule_options(const Job& job, int microbatches) {
    return {job.pipeline.schedule, job.mesh.pp, microbatches, job.pipeline.chunks, {}};
}

Transformer model_of(const Job& job, Engine& engine) {
    return {engine, job.model, layouts_of(job, engine.mesh()), job.train.dtype, zero_options(job), pipeline_form(job)};
}

}  // namespace cleave

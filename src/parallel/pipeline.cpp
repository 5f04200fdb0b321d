#include "parallel/pipeline.h"

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace cleave {

namespace {

PipelineSchedule without_actions(const PipelineForm& form) {
    PipelineSchedule schedule;
    schedule.stages = form.stages;
    schedule.chunks = form.chunks;
    schedule.route = form.route;
    return schedule;
}

}  // namespace

int PipelineForm::virtual_stage_of(int stage, int chunk) const {
    return without_actions(*this).virtual_stage_of(stage, chunk);
}

PipelineSchedule::Place first_place(const PipelineForm& form, int virtual_stage) {
    return without_actions(form).place_of(virtual_stage, 0);
}

std::vector<int> PipelineForm::owners_of(int virtual_stage) const {
    std::vector<int> owners;
    for (int stage = 0; stage < stages; ++stage)
        for (int chunk = 0; chunk < chunks; ++chunk)
            if (virtual_stage_of(stage, chunk) == virtual_stage) owners.push_back(stage);
    return owners;
}

std::vector<std::int64_t> distribute_layers(std::int64_t layers, int virtual_stages, double head) {
    const auto count = static_cast<std::size_t>(virtual_stages);
    std::vector<std::int64_t> result(count, layers >= virtual_stages ? 1 : 0);
    const auto work = [&](std::size_t v) { return static_cast<double>(result[v]) + (v + 1 == count ? head : 0); };
    const auto from_middle = [&](std::size_t v) { return std::abs(2 * static_cast<int>(v) - (virtual_stages - 1)); };
    std::int64_t left = layers - std::accumulate(result.begin(), result.end(), std::int64_t{0});
    for (; left > 0; --left) {
        std::size_t least = 0;
        for (std::size_t v = 1; v < count; ++v)
            if (std::pair(work(v), from_middle(v)) < std::pair(work(least), from_middle(least))) least = v;
        ++result[least];
    }
    return result;
}

std::vector<ModelPart> model_parts(const PipelineForm& form, std::int64_t layers) {
    const int count = form.virtual_stages();
    const auto of_stage = form.layers.empty() ? distribute_layers(layers, count, 0) : form.layers;
    CLEAVE_CHECK(static_cast<int>(of_stage.size()) == count, "layers of {} virtual stages, but there are {}",
                 of_stage.size(), count);
    std::vector<ModelPart> parts;
    std::int64_t next = 0;
    for (int v = 0; v < count; ++v) {
        const std::int64_t end = next + of_stage[static_cast<std::size_t>(v)];
        parts.push_back({v == 0, next, end, v == count - 1});
        next = end;
    }
    CLEAVE_CHECK(next == layers, "the stages have {} layers, the model {}", next, layers);
    return parts;
}

AxisId pipeline_axis(const Mesh& mesh) {
    return mesh.axis("pp");
}

int pipeline_stages(const Mesh& mesh) {
    return mesh.has("pp") ? mesh.size(pipeline_axis(mesh)) : 1;
}

void sum_over_stages(Engine& engine, std::span<double> values, std::string_view name) {
    if (pipeline_stages(engine.mesh()) == 1) return;
    const AxisId axis = pipeline_axis(engine.mesh());
    Layout terms;
    terms.set(axis, P);
    const Tensor tensor =
        engine.alloc(name, {static_cast<std::int64_t>(values.size())}, terms, DType::f64, MemoryKind::activations);
    engine.write(tensor, std::as_bytes(values));
    engine.read_bytes(engine.transition(tensor, terms.with(axis, R)), std::as_writable_bytes(values));
}

double read_over_stages(Engine& engine, const Tensor& term, double stated) {
    if (pipeline_stages(engine.mesh()) == 1) return engine.read(term, stated);
    const AxisId axis = pipeline_axis(engine.mesh());
    const Tensor total = engine.transition(term.relabelled(term.layout().with(axis, P)), term.layout().with(axis, R));
    return engine.read(total, stated);
}

int stage_of_pipeline(const Mesh& mesh, int rank) {
    return mesh.has("pp") ? mesh.coordinate(rank, pipeline_axis(mesh)) : 0;
}

}  // namespace cleave

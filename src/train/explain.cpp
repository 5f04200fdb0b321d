#include "train/explain.h"

#include <algorithm>

#include "engine/virtual_engine.h"
#include "train/dry_run.h"
#include "train/step.h"

namespace cleave {

namespace {

constexpr std::string_view kForward = " forward";
constexpr std::string_view kBackward = " backward";

void add(ExplainedPass& pass, const Event& event) {
    pass.events.push_back(event);
    if (event.type == EventType::issue) pass.bytes_sent[event.name] += event.bytes;
    if (event.type == EventType::launch) pass.flops += event.flops;
}

// Sorts a step's events by the parts that the model marks. Of several microbatches the last one stays.
class PartSorter {
  public:
    explicit PartSorter(Explanation& to) : to_(to), pass_(&to.rest) {}

    void take(const Event& event) {
        if (event.type == EventType::mark)
            enter(event.name);
        else
            add(*pass_, event);
    }

  private:
    void enter(const std::string& mark) {
        pass_ = &to_.rest;  // of the step: "forward 0", "reduce", "optimizer"
        for (const bool forward : {true, false}) {
            const std::string_view direction = forward ? kForward : kBackward;
            if (!mark.ends_with(direction)) continue;
            ExplainedPart& part = part_of(mark.substr(0, mark.size() - direction.size()));
            pass_ = forward ? &part.forward : &part.backward;
            *pass_ = {};
        }
    }
    ExplainedPart& part_of(const std::string& name) {
        const auto found =
            std::find_if(to_.parts.begin(), to_.parts.end(), [&](const auto& p) { return p.name == name; });
        if (found != to_.parts.end()) return *found;
        to_.parts.reserve(1 << 12);  // pass_ points into it
        to_.parts.push_back({name, name, {}, {}});
        return to_.parts.back();
    }

    Explanation& to_;
    ExplainedPass* pass_;
};

bool alike(const ExplainedPass& a, const ExplainedPass& b) {
    return std::equal(a.events.begin(), a.events.end(), b.events.begin(), b.events.end(),
                      [](const Event& x, const Event& y) {
                          return x.type == y.type && x.name == y.name && x.placement == y.placement &&
                                 x.bytes == y.bytes && x.flops == y.flops;
                      });
}

// Neighbours that do the same become one.
void join_alike(std::vector<ExplainedPart>& parts) {
    std::vector<ExplainedPart> joined;
    for (ExplainedPart& part : parts) {
        if (!joined.empty() && alike(joined.back().forward, part.forward) &&
            alike(joined.back().backward, part.backward))
            joined.back().last = part.name;
        else
            joined.push_back(std::move(part));
    }
    parts = std::move(joined);
}

struct ParameterAlong {
    std::string name;
    std::vector<Placement> placements;  // along each axis
    std::vector<Placement> gradients;
};

// The placements of each parameter, and of its gradient, along axes of dp 2 x tp.
std::vector<ParameterAlong> along_axes(const ModelConfig& config, int tp, bool sequence,
                                       const std::vector<std::string_view>& axes) {
    Job job;
    job.model = config;
    job.mesh.tp = tp;
    job.sequence_parallel = sequence;
    const Mesh mesh = mesh_of(job, 2 * tp);
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    Transformer model(engine, config, layouts_of(job, mesh), DType::f32);
    std::vector<ParameterAlong> all;
    for (const Parameter* p : model.parameters()) {
        ParameterAlong& row = all.emplace_back(ParameterAlong{p->name, {}, {}});
        for (const std::string_view name : axes) {
            row.placements.push_back(p->layout.at(mesh.axis(name)));
            row.gradients.push_back(p->layout.dual().at(mesh.axis(name)));
        }
    }
    return all;
}

ModelConfig sample_of(Family family) {
    ModelConfig config;
    config.family = family;
    config.layers = 1;
    config.vocabulary = 256;
    config.tied_embeddings = family == Family::gpt2;
    config.qkv_bias = config.qk_norm = family == Family::llama;
    return config;
}

}  // namespace

std::vector<SupportRow> layer_support() {
    std::vector<SupportRow> rows;
    for (const Family family : {Family::gpt2, Family::llama}) {
        ModelConfig config = sample_of(family);
        const auto tensor = along_axes(config, 2, false, {"tp"});
        const auto sequence = along_axes(config, 2, true, {"tp"});
        std::vector<ParameterAlong> grouped;
        if (family == Family::llama) {
            config.kv_heads = config.heads / 2;
            grouped = along_axes(config, static_cast<int>(config.heads), false, {"tp.kv", "tp.rep"});
        }
        for (std::size_t i = 0; i < tensor.size(); ++i) {
            std::string name = tensor[i].name;
            if (const auto at = name.find(".0."); at != std::string::npos) name.replace(at, 3, ".N.");
            rows.push_back({family == Family::gpt2 ? "gpt2" : "llama", name, to_string(tensor[i].placements[0]),
                            to_string(sequence[i].placements[0]), to_string(sequence[i].gradients[0]), "", ""});
            if (grouped.empty()) continue;
            rows.back().key_heads = to_string(grouped[i].placements[0]);
            rows.back().shared_heads = to_string(grouped[i].placements[1]);
        }
    }
    return rows;
}

Explanation explain(const Job& job, int ranks, int rank, comm::TransportKind transport, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    const int dp = mesh.size(mesh.axis("dp"));
    Explanation result;
    result.rank = rank;
    for (int r = 0; r < mesh.world_size(); ++r) result.coordinates.push_back(mesh.coordinates(r));
    result.microbatches = accumulation(job, dp, job.train.batch);
    result.bytes_sent = rank_plan(job, mesh, rank, transport, team).bytes_sent;

    VirtualEngine engine(mesh, rank, transport, team);
    Transformer model = model_of(job, engine);
    for (const Parameter* p : model.store().buckets().parameters())
        result.parameters.push_back({p->name, p->shape, to_string(p->layout, mesh), to_string(p->layout.dual(), mesh),
                                     local_shape(p->shape, p->layout, mesh, rank).elements()});
    TrainStep step(engine, model, job);
    engine.trace().start();
    // Of a pipeline all, as its schedule wants them; the passes of the last one are shown.
    const std::int64_t microbatches =
        job.mesh.pp > 1 ? result.microbatches : std::min<std::int64_t>(result.microbatches, 2);
    step.run(counted_microbatches(job, dp, microbatches), 1, job.train.lr);
    PartSorter sorter(result);
    for (const Event& event : engine.trace().events()) sorter.take(event);
    join_alike(result.parts);
    return result;
}

}  // namespace cleave

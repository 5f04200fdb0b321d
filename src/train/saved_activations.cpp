#include "train/saved_activations.h"

#include <algorithm>
#include <map>

#include "engine/virtual_engine.h"
#include "train/dry_run.h"
#include "train/step.h"

namespace cleave {

namespace {

using Terms = std::map<std::string, SavedTerm>;

Terms live_activations(const VirtualEngine& engine) {
    Terms terms;
    for (const VirtualEngine::Block& block : engine.live_blocks()) {
        if (block.kind != MemoryKind::activations) continue;
        SavedTerm& term = terms[block.name];
        term.name = block.name;
        term.bytes += block.bytes;
        ++term.count;
    }
    return terms;
}

Terms difference(const Terms& all, const Terms& less) {
    Terms result;
    for (const auto& [name, term] : all) {
        const auto found = less.find(name);
        SavedTerm more = term;
        if (found != less.end()) {
            more.bytes -= found->second.bytes;
            more.count -= found->second.count;
        }
        if (more.bytes != 0) result[name] = more;
    }
    return result;
}

std::vector<SavedTerm> sorted(const Terms& terms) {
    std::vector<SavedTerm> list;
    for (const auto& [name, term] : terms) list.push_back(term);
    std::stable_sort(list.begin(), list.end(),
                     [](const SavedTerm& a, const SavedTerm& b) { return a.bytes > b.bytes; });
    return list;
}

// Of a model of so many layers, after its forward.
Terms kept_by(Job job, int ranks, int team, std::int64_t layers) {
    job.model.layers = layers;
    const Mesh mesh = mesh_of(job, ranks);
    VirtualEngine engine(mesh, mesh.world_size() - 1, comm::TransportKind::inproc, team);
    Transformer model = model_of(job, engine);
    engine.keep_names();
    const Samples samples = counted_microbatches(job, mesh.size(mesh.axis("dp")), 1).front();
    const Tensor tokens = write_samples(engine, model, "tokens", samples, samples.tokens);
    const Tensor labels = write_samples(engine, model, "labels", samples, samples.labels);
    Tape tape(engine, true, job.recompute);
    tape.set_randomness({0, 0, 0});
    const Loss loss = model.losses(tape, tokens, labels, 1, job.train.z_loss, write_context(engine, model, samples));
    return live_activations(engine);
}

}  // namespace

SavedActivations saved_activations(const Job& of, int ranks, int team) {
    Job job = of;  // on one stage: the others hold the same of their layers
    job.mesh.pp = 1;
    job.pipeline = {};
    ranks /= of.mesh.pp;
    const Terms one = kept_by(job, ranks, team, 1);
    const Terms block = difference(kept_by(job, ranks, team, 2), one);
    return {sorted(block), sorted(difference(one, block))};
}

std::int64_t total_bytes(const std::vector<SavedTerm>& terms) {
    std::int64_t total = 0;
    for (const SavedTerm& term : terms) total += term.bytes;
    return total;
}

}  // namespace cleave

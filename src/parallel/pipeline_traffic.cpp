#include "parallel/pipeline_traffic.h"

#include "base/error.h"

namespace cleave {

namespace {

constexpr std::size_t kInFlight = 2;

}  // namespace

PipelineTraffic::PipelineTraffic(Engine& engine, const PipelineSchedule& schedule, std::function<Tensor()> alloc)
    : engine_(engine),
      schedule_(schedule),
      alloc_(std::move(alloc)),
      stage_(stage_of_pipeline(engine.mesh(), engine.rank())) {}

PipelineTraffic::Name PipelineTraffic::put_by(Direction direction, int chunk, int microbatch) const {
    const int own = schedule_.virtual_stage_of(stage_, chunk);
    return {direction, direction == Direction::activations ? own + 1 : own - 1, microbatch};
}

PipelineTraffic::Name PipelineTraffic::taken_by(Direction direction, int chunk, int microbatch) const {
    return {direction, schedule_.virtual_stage_of(stage_, chunk), microbatch};
}

// `virtual_stage`: the other one's.
Engine::Peer PipelineTraffic::peer(const Name& name, int virtual_stage) const {
    const int direction = name.direction == Direction::activations ? 0 : 1;
    const int tag = (2 * name.taker + direction) * schedule_.microbatches + name.microbatch;
    return {pipeline_axis(engine_.mesh()), schedule_.place_of(virtual_stage, name.microbatch).stage, tag};
}

void PipelineTraffic::put(Direction direction, int chunk, int microbatch, Tensor tensor) {
    here_.emplace(put_by(direction, chunk, microbatch), std::move(tensor));
}

Tensor PipelineTraffic::take(Direction direction, int chunk, int microbatch) {
    const Name name = taken_by(direction, chunk, microbatch);
    if (auto handed = here_.extract(name)) return handed.mapped();
    const auto arriving = arriving_.extract(name);
    CLEAVE_CHECK(arriving, "microbatch {} has not come to chunk {}", microbatch, chunk);
    return engine_.finish(arriving.mapped());
}

void PipelineTraffic::send(Direction direction, int chunk, int microbatch) {
    const Name name = put_by(direction, chunk, microbatch);
    const auto tensor = here_.extract(name);
    CLEAVE_CHECK(tensor, "chunk {} has nothing to send of microbatch {}", chunk, microbatch);
    auto& sent = sent_[static_cast<std::size_t>(direction)];
    if (sent.size() == kInFlight) {
        engine_.finish(sent.front());
        sent.pop_front();
    }
    sent.push_back(engine_.start_send(tensor.mapped(), peer(name, name.taker)));
}

void PipelineTraffic::receive(Direction direction, int chunk, int microbatch) {
    const Name name = taken_by(direction, chunk, microbatch);
    const Tensor memory = alloc_();
    const bool gradient = direction == Direction::gradients;
    const Tensor into = gradient ? memory.relabelled(memory.layout().dual()) : memory;
    arriving_.emplace(name, engine_.start_receive(into, peer(name, name.taker + (gradient ? 1 : -1))));
}

void PipelineTraffic::finish() {
    for (auto& sent : sent_) {
        for (const auto& pending : sent) engine_.finish(pending);
        sent.clear();
    }
    CLEAVE_CHECK(here_.empty() && arriving_.empty(), "{} tensors of the pipeline were not taken",
                 here_.size() + arriving_.size());
}

}  // namespace cleave

// What goes from chunk to chunk in a step of a pipeline (parallel/schedule.h): activations forward, gradients back.
// Compute actions put and take tensors; where the two chunks are on different stages, the schedule's send and receive
// actions move them, otherwise they are handed over.
//
// A receive is issued by its action and waited for by take(). Of sends in one direction two are in flight at most: the
// program frees a tensor that was sent, not the clock. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include "parallel/pipeline.h"

namespace cleave {

class PipelineTraffic {
  public:
    enum class Direction : std::uint8_t { activations, gradients };

    // `alloc` gives memory for what goes from chunk to chunk, as it is placed forward.
    PipelineTraffic(Engine& engine, const PipelineSchedule& schedule, std::function<Tensor()> alloc);

    // What a chunk of this stage has made of a microbatch: its output, or the gradient of its input.
    void put(Direction direction, int chunk, int microbatch, Tensor tensor);
    // What it needs: its input, or the gradient of its output.
    Tensor take(Direction direction, int chunk, int microbatch);
    // The actions of the schedule. `chunk` is the one that has put, or will take.
    void send(Direction direction, int chunk, int microbatch);
    void receive(Direction direction, int chunk, int microbatch);
    // Waits for all sends, and checks that everything was taken.
    void finish();

  private:
    // The virtual stage that takes, by which both sides name a tensor.
    struct Name {
        Direction direction;
        int taker;
        int microbatch;
        friend bool operator<(const Name& a, const Name& b) {
            return std::tie(a.direction, a.taker, a.microbatch) < std::tie(b.direction, b.taker, b.microbatch);
        }
    };
    Name put_by(Direction direction, int chunk, int microbatch) const;
    Name taken_by(Direction direction, int chunk, int microbatch) const;
    Engine::Peer peer(const Name& name, int virtual_stage) const;

    Engine& engine_;
    const PipelineSchedule& schedule_;
    std::function<Tensor()> alloc_;
    int stage_;
    std::map<Name, Tensor> here_;  // put, and not yet sent or taken
    std::map<Name, std::shared_ptr<PendingMessage>> arriving_;
    std::deque<std::shared_ptr<PendingMessage>> sent_[2];
};

}  // namespace cleave

// One step of a transition over one group: which pieces go where. Shared by both engines, so that the buffers and bytes
// that the virtual engine accounts are those that the CPU engine uses.
// Thread rule: one rank's thread.
#pragma once

#include <vector>

#include "comm/program.h"
#include "engine/tensor.h"
#include "placement/transition.h"

namespace cleave {

// A box of global indices, one range a dim.
using Box = std::vector<Range>;

struct Exchange {
    Action action = Action::nothing;
    std::vector<AxisId> axes;  // together one group
    Placement from = I;
    Placement to = I;
    Tensor input;
    Tensor output;
    // Dense buffers in the order of the group's ranks, where the pieces do not lie so in input or output; may be empty.
    Tensor send;
    Tensor receive;
};

// The collective that the exchange asks of its group: operation and every rank's counts, the algorithm left to be
// chosen.
comm::Spec spec_of(const Exchange& exchange, const Mesh& mesh, int rank);

// True where the cut dim is not the outermost of the local pieces, so that they do not lie one after the other.
bool needs_packing(const Exchange& exchange);

// Copies the elements of `box` from a dense piece that holds `source_box` to one that holds `target_box`.
void copy_box(const void* source, const Box& source_box, void* target, const Box& target_box, const Box& box,
              std::int64_t element_bytes);
Box intersection(const Box& a, const Box& b);
std::int64_t volume(const Box& box);

// Before and after the communication: into `send`, out of `receive`. Nothing where the buffers are empty.
void pack(const Exchange& exchange, const Mesh& mesh, int rank);
void unpack(const Exchange& exchange, const Mesh& mesh, int rank);
// The actions that need no communication.
void run_local_action(const Exchange& exchange, const Mesh& mesh, int rank);

}  // namespace cleave

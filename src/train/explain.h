// What a job does on its layout, part by part of the model: read off the trace of its step on the virtual engine, so
// that it is the step itself that is explained. Thread rule: plain functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/types.h"
#include "engine/trace.h"
#include "train/job.h"

namespace cleave {

struct ExplainedParameter {
    std::string name;
    Shape shape;
    std::string placement;           // on the mesh, without ZeRO
    std::string gradient_placement;  // before it is reduced
    std::int64_t elements = 0;       // of this rank's piece
};

// One direction of one part of the model.
struct ExplainedPass {
    std::vector<Event> events;                       // launches, transitions and waits
    std::map<std::string, std::int64_t> bytes_sent;  // by collective, of this rank
    double flops = 0;
};

struct ExplainedPart {
    std::string name;  // "embedding", "block 0", "head"
    std::string last;  // the last of the blocks after it that do the same; its own name where there is none
    ExplainedPass forward;
    ExplainedPass backward;  // of the last microbatch, which sends gradients
};

struct Explanation {
    std::vector<std::string> coordinates;  // of each rank, in every view of the mesh
    int rank = 0;                          // the one explained
    std::vector<ExplainedParameter> parameters;
    std::vector<ExplainedPart> parts;
    ExplainedPass rest;             // counting labels, reductions that backward has not issued, norm, update
    std::int64_t microbatches = 0;  // of a step
    std::map<std::string, std::int64_t> bytes_sent;  // in a step, all microbatches
};

// `job` is checked for `ranks`; its vocabulary is set.
Explanation explain(const Job& job, int ranks, int rank, comm::TransportKind transport, int team);

// How the parameters of each family of models lie along the axes that there are, read off a model of one layer on a
// mesh of dp 2 x tp 2, or, with fewer key heads than ranks, tp 4: one row for each name, N for the layer's number.
struct SupportRow {
    std::string family;
    std::string parameter;
    std::string tensor;             // along tp
    std::string sequence;           // along tp, with sequence parallelism
    std::string sequence_gradient;  // its gradient's, with sequence parallelism
    std::string key_heads;          // along tp.kv, which cuts key heads; empty where the family has no grouped heads
    std::string shared_heads;       // along tp.rep, whose ranks share a key head
};
std::vector<SupportRow> layer_support();

}  // namespace cleave

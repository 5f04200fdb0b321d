// What a model keeps from a microbatch's forward to its backward, term by term, on one rank: read off the virtual
// engine after the forward, so that it is the model itself that is counted. Thread rule: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/job.h"

namespace cleave {

struct SavedTerm {
    std::string name;  // of the tensor: "qkv", "gelu"
    std::int64_t bytes = 0;
    std::int64_t count = 0;  // tensors of that name
};

struct SavedActivations {
    std::vector<SavedTerm> block;  // what one block more keeps, largest first
    std::vector<SavedTerm> rest;   // what a model keeps beside its blocks: embedding, head, loss, tokens
};

// `job` is checked for `ranks`; its vocabulary is set. Of the last rank, which has the larger pieces. Independent of
// the number of layers.
SavedActivations saved_activations(const Job& job, int ranks, int team);

std::int64_t total_bytes(const std::vector<SavedTerm>& terms);

}  // namespace cleave

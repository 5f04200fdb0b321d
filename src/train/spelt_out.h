// Keys of [model] whose 0 stands for a number that follows from others: what they say is equal where that number is.
#pragma once

#include "train/job.h"

namespace cleave {

// `job` with those numbers in place of its zeros, but the vocabulary's, which the text decides.
inline Job spelt_out(Job job) {
    ModelConfig& m = job.model;
    const ModelConfig before = m;
    m.kv_heads = before.key_value_heads();
    m.head_width = before.head_channels();
    m.mlp_width = before.hidden_mlp();
    m.positions = before.most_positions();
    return job;
}

}  // namespace cleave

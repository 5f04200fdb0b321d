// A parameter of the model: a leaf of the tape.
// Thread rule: one rank's thread.
#pragma once

#include <string>

#include "engine/tensor.h"

namespace cleave {

struct Parameter {
    std::string name;  // the Hugging Face name
    Shape shape;       // factored, for instance c_attn [width, 3, heads, head width]
    Layout layout;
    bool decays = true;       // weight decay applies (matrices; not norms and biases)
    double initial_mean = 0;  // normal(mean, deviation); deviation 0 is a constant
    double initial_deviation = 0;
    // The part of the model that uses it, in the order of use: 0 embedding, then the blocks, then the head. A parameter
    // that two parts use (a tied table) names the later one as well.
    int group = 0;
    int second_group = -1;

    // Views into the memory that parallel/parameter_store.h and parallel/gradient_buckets.h own. Empty where this rank
    // does not hold the parameter whole: of ZeRO's stages.
    Tensor value;     // in the dtype of the computation
    Tensor master;    // f32 under bf16; otherwise value itself
    Tensor gradient;  // accumulator dtype, layout = dual(layout); all uses of all microbatches add into it
};

}  // namespace cleave

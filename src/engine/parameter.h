// A parameter of the model: a leaf of the tape.
// Thread rule: one rank's thread.
#pragma once

#include <string>
#include <vector>

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
    // Of the pipeline (parallel/pipeline.h): the virtual stages that use it and the stages that hold those, ascending;
    // and how many of this rank's chunks use it, none where it is not here.
    std::vector<int> virtual_stages = {0};
    std::vector<int> owners = {0};
    int chunks_here = 1;
    int index = 0;  // in the order of the whole model's parameters (parallel/parameter_buckets.h sets it)

    // Views into the memory that parallel/parameter_store.h and parallel/gradient_buckets.h own. Empty where this rank
    // does not hold the parameter whole: of ZeRO's stages.
    Tensor value;     // in the dtype of the computation
    Tensor master;    // f32 under bf16; otherwise value itself
    Tensor gradient;  // accumulator dtype, layout = dual(layout); all uses of all microbatches add into it
};

}  // namespace cleave

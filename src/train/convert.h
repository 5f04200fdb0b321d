// `cleave convert`: a Hugging Face folder becomes a run folder, a run folder (or a checkpoint) a Hugging Face folder.
// What was written is read again and compared with the source: every weight bit for bit, and the logits of a fixed
// prompt. Thread rule: the main thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/weights_source.h"

namespace cleave {

struct ConvertOptions {
    std::string source;
    std::string destination;
    DType dtype = DType::f32;  // of the values in a Hugging Face folder: f32 or bf16
    bool overwrite = false;
    bool json = false;
    std::function<std::string(const Job&)> run_file;  // the configuration's text for a run folder
};

// Returns the program's exit code: kExitNo where what was written differs.
int run_conversion(const ConvertOptions& options);

// The outcome of a comparison; everything equal unless said otherwise.
struct Comparison {
    std::int64_t tensors = 0;
    std::vector<std::string> different;  // names of parameters whose bits differ
    double logit_difference = 0;         // largest; NaN counts as infinite
    bool equal() const { return different.empty() && logit_difference == 0; }
};

// The weights of `model`, which it rounds to `stored` first, with those that `written` gives.
Comparison compare_with(const WeightsSource& written, Engine& engine, Transformer& model, DType stored);

}  // namespace cleave

// `cleave convert`: a Hugging Face folder becomes a run folder, a run folder (or a checkpoint) a Hugging Face folder.
// What was written is read again and compared with the source: every weight bit for bit, and the logits of a fixed
// prompt. Thread rule: the main thread.
#pragma once

#include <functional>
#include <string>

#include "train/job.h"

namespace cleave {

struct ConvertOptions {
    std::string source;
    std::string destination;
    DType dtype = DType::f32;      // of the values in a Hugging Face folder: f32 or bf16
    std::int64_t shard_bytes = 0;  // of a file of a Hugging Face folder, at most; 0: as Transformers cuts
    bool overwrite = false;
    bool json = false;
    std::function<std::string(const Job&)> run_file;  // the configuration's text for a run folder
};

// Returns the program's exit code: kExitNo where what was written differs.
int run_conversion(const ConvertOptions& options);

}  // namespace cleave

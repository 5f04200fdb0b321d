// The full state of a run: master weights and optimizer state by parameter name and global index, free of layout, and
// in the metadata what is needed to go on with the same bits: step, model, tokenizer, seed, and the build, instruction
// set and team size that bits depend on. Thread rule: save on one rank (all of them hold every parameter under data
// parallelism), load on every rank.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "train/checkpoint_file.h"
#include "train/optimizer.h"

namespace cleave {

// What bits depend on beside the run's own configuration.
struct Environment {
    std::string build;            // compiler and version of Cleave
    std::string instruction_set;  // the widest that this processor has
    int ranks = 1;                // that share the batch: a sum over rows is cut where theirs end
    int team = 1;                 // threads of a rank
};
Environment this_environment(int ranks, int team);
Json to_json(const Environment& environment);
// What differs from the environment in a checkpoint's metadata, in words; empty if nothing does.
std::string environment_difference(const Json& saved, const Environment& now);

// Throws UserError where the file cannot be written, RunError where a value is not finite: a file that is there stays.
void save_checkpoint(const std::filesystem::path& path, Transformer& model, const Optimizer& optimizer,
                     const Json& metadata);
bool is_finite(const Tensor& tensor);  // every value of this rank's part
// Without an optimizer's state: a run can begin from it, but not go on.
void save_weights(const std::filesystem::path& path, Transformer& model, const Json& metadata);

// Weights alone (generate, evaluate), and everything (resume). Throws UserError where names, shapes or dtypes differ.
void load_weights(const CheckpointFile& file, Engine& engine, Transformer& model);
void load_optimizer(const CheckpointFile& file, Engine& engine, const Optimizer& optimizer);

}  // namespace cleave

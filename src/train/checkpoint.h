// The full state of a run: master weights and optimizer state by parameter name and global index, free of layout, and
// in the metadata what is needed to go on with the same bits: step, model, tokenizer, seed, and the build, instruction
// set and team size that bits depend on. Saving gathers one bucket at a time, loading reads each rank's own pieces: a
// run goes on with any other layout and stage of ZeRO. Thread rule: all ranks together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "train/checkpoint_file.h"
#include "train/optimizer.h"

namespace cleave {

// Rank 0 writes, with its `metadata`; the others send it what they hold. Throws UserError where the file cannot be
// written, RunError where a value is not finite: a file that is there stays.
void save_checkpoint(const std::filesystem::path& path, Transformer& model, const Optimizer& optimizer,
                     const Json& metadata);
bool is_finite(const Tensor& tensor);  // every value of this rank's part
// Without an optimizer's state: a run can begin from it, but not go on.
void save_weights(const std::filesystem::path& path, Transformer& model, const Json& metadata);

// Weights alone (generate, evaluate), and everything (resume). Throws UserError where names, shapes or dtypes differ.
void load_weights(const CheckpointFile& file, Transformer& model);
void load_optimizer(const CheckpointFile& file, const Optimizer& optimizer);

// This rank's piece of `tensor` from the whole of it, in its dtype.
void write_piece(Engine& engine, const Tensor& tensor, std::span<const std::byte> whole);

}  // namespace cleave

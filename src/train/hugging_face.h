// A Hugging Face folder as a source and as a destination of weights: config.json (train/hugging_face_config.h),
// model.safetensors or its shards (train/safetensors.h), tokenizer.json.
//
// Parameters have the same names in both. A factored shape is the row-major reshaping of the file's: c_attn.weight
// [c, 3, h, d] is [c, 3hd] in the file, q_proj.weight [h, d, c] is [hd, c], o_proj.weight [c, h, d] is [c, hd]. Rotary
// pairs lie half a head apart on both sides (kernels/rotary.h), so that nothing is permuted.
//
// Tied weights stand once in a file, under the token table's name; the header's metadata names the head as its alias.
// Files of the model without its head lack the first part of the names ("transformer.", "model."), which is accepted.
// Thread rule: immutable after construction.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "train/hugging_face_config.h"
#include "train/safetensors.h"

namespace cleave {

// Whether the folder is one: it holds a config.json.
bool is_hugging_face_folder(const std::filesystem::path& folder);

class HuggingFaceFolder {
  public:
    // Maps the weights and checks that they are those of the model in config.json: every name, shape and type. Throws
    // UserError with all that is wrong.
    explicit HuggingFaceFolder(std::filesystem::path folder);

    const std::filesystem::path& path() const { return path_; }
    const HuggingFaceModel& config() const { return config_; }
    const SafetensorsFolder& weights() const { return weights_; }
    const SafetensorsTensor& tensor(const Parameter& parameter) const;
    // Into the master weights and the values of the same model.
    void load(Transformer& model) const;

  private:
    const SafetensorsTensor* find(std::string_view name) const;
    void check_tensors() const;
    void check_tied(std::vector<std::string>& problems) const;

    std::filesystem::path path_;
    HuggingFaceModel config_;
    SafetensorsFolder weights_;
};

// The parameter's shape in a Hugging Face file.
Shape hugging_face_shape(const Parameter& parameter);

// Writes config.json and the weights, values stored as f32 or bf16, into an existing folder: model.safetensors, or
// shards of at most `shard_bytes` and their index.
void write_hugging_face(const std::filesystem::path& folder, Transformer& model, DType stored,
                        std::int64_t shard_bytes = kShardBytes);

}  // namespace cleave

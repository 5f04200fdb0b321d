// Where a model and its weights come from: a Hugging Face folder, a run folder (its newest checkpoint), or a checkpoint
// file. Thread rule: immutable after construction; all rank threads share one.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint_file.h"
#include "train/hugging_face.h"
#include "train/job.h"
#include "train/tokenizer.h"

namespace cleave {

// The tokenizer of an exported model where it is of a kind that only Cleave knows (characters, bytes): as
// Tokenizer::to_json() makes it, in the Hugging Face folder.
inline constexpr std::string_view kOwnTokenizerName = "cleave_tokenizer.json";

class WeightsSource {
  public:
    // Throws UserError where `path` is none of these, or damaged.
    explicit WeightsSource(const std::filesystem::path& path);

    // The job of the run; for a Hugging Face folder the defaults and its model.
    const Job& job() const { return job_; }
    const ModelConfig& model() const { return job_.model; }
    // Either of them is there.
    const HuggingFaceFolder* hugging_face() const { return hugging_face_ ? &*hugging_face_ : nullptr; }
    const CheckpointFile* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }
    const std::filesystem::path& path() const;  // of the folder or the checkpoint
    std::string description() const;            // "the Hugging Face folder x (LlamaForCausalLM)"
    // Its tokenizer.json; none where there is none, or the tokenizer is of another kind.
    std::optional<std::filesystem::path> tokenizer_file() const;
    bool has_tokenizer() const;
    // Throws UserError where it has none, or one with more tokens than the model has rows.
    Tokenizer tokenizer() const;
    // Of every name, type and value: ranks on several hosts must begin with the same.
    std::uint64_t hash() const;
    // Into a model of the same shape; its context and dtype may be others. The optimizer's state is not touched. Throws
    // UserError where a weight is not finite.
    void load(Transformer& model) const;

  private:
    Tokenizer saved_tokenizer() const;
    std::optional<std::filesystem::path> own_tokenizer_file() const;

    Job job_;
    std::optional<HuggingFaceFolder> hugging_face_;
    std::optional<CheckpointFile> checkpoint_;
};

// Gives `job` the model of job.weights, and its tokenizer.json where no data.tokenizer is set. `is_set` says whether
// the user has set a key: model.context, dropout and what only matters to random weights may be set as one likes; any
// other must agree. A 0 that stands for what another key says counts as not set. Returns the problems; that the weights
// cannot be used is one. Does nothing where job.weights is empty.
std::vector<std::string> adopt_model(Job& job, const std::function<bool(std::string_view)>& is_set);

}  // namespace cleave

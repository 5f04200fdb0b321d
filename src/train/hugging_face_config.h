// config.json of a Hugging Face folder, and the model that it describes: gpt2, llama (2 and 3), qwen2, qwen3. The
// meaning of each key and its default where it is missing are those of the model's configuration class in Transformers.
// What Cleave would compute otherwise is refused by name and value, never approximated.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "model/model_config.h"

namespace cleave {

struct HuggingFaceModel {
    ModelConfig model;               // its context: the training context, the longest allowed but at most 1024
    std::string architecture;        // "LlamaForCausalLM"
    std::vector<std::string> notes;  // what was read but has no effect here, one line each
};

// Throws UserError with every problem at once. `source` names the file.
HuggingFaceModel read_hugging_face_config(const Json& config, std::string_view source);

// The other way. Throws UserError where no architecture of these has the model's combination of parts.
Json hugging_face_config(const ModelConfig& model, DType stored);

}  // namespace cleave

// The pre_tokenizer of tokenizer.json as stages that cut text into words.
// Thread rule: a pure function.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "train/bpe_words.h"

namespace cleave {

struct PreTokenizer {
    std::vector<WordStage> stages;
    bool cuts_at_lines = false;  // all patterns are among those that bpe_parallel.h speaks of
};

// Accepted: ByteLevel, or a Sequence of Split (a Regex, Isolated) and Digits that ends with ByteLevel. Throws
// UserError, beginning with `source`, naming anything else.
PreTokenizer read_pre_tokenizer(const Json* json, std::string_view source);

}  // namespace cleave

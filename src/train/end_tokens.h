// The tokens with which a model says that its text ends.
// Thread rule: a pure function of the files.
#pragma once

#include <vector>

#include "train/weights_source.h"

namespace cleave {

// The first of these that is there: eos_token_id of generation_config.json, of config.json, both beside the weights;
// the tokenizer's own token of a usual name (<|endoftext|>, <|end_of_text|>, </s>). Only models with a tokenizer.json
// have any. Throws UserError where a file is damaged.
std::vector<Token> end_tokens(const WeightsSource& source, const Tokenizer& tokenizer);

}  // namespace cleave

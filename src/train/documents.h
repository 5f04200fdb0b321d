// Where documents begin in a stream of tokens in which one token ends each.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/token_view.h"
#include "train/tokenizer.h"

namespace cleave {

// The token that data.document_end names: its text, or, where tokens stand for no text, its id. Throws UserError where
// it is none, or several.
Token document_end_token(const Tokenizer& tokenizer, const std::string& document_end);

// Rising from 0. The token `end` is the last of its document. Empty documents (two such tokens) have it alone.
std::vector<std::int64_t> document_starts(TokenView tokens, Token end);

}  // namespace cleave

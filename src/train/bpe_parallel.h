// A long text to tokens by several threads: the tokens that BpeEncoder gives.
//
// The text is cut between a line break and an ASCII letter, where the line break stands behind a visible ASCII
// character. The patterns of GPT-2, Llama 3 and Qwen never take both sides of such a place in one word, and give the
// line break to the same word whether the text ends there or goes on (read_pre_tokenizer marks them); nor does a normal
// form join them. Where another pattern, a prefix, or an added token with a line break is in use, one thread encodes
// all. Thread rule: one call starts its own threads and joins them.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "train/bpe.h"

namespace cleave {

struct BpeParallel {
    int threads = 1;
    std::size_t chunk = std::size_t{1} << 20;        // bytes between cuts, at least
    std::function<void(std::size_t)> progress = {};  // bytes done; from any of the threads, one at a time
};

// Throws UserError as BpeEncoder does.
std::vector<Token> encode_bpe(const Bpe& bpe, std::string_view text, const BpeParallel& options);

}  // namespace cleave

// Text to the tokens of a Bpe. In this order: added tokens in the text as it is; normal form; added tokens in that;
// words; tokens that merge within each word.
//
// Bytes that are not UTF-8, which the Hugging Face library never sees (it takes Unicode text), are tokens too: every
// run of them is a word of its own, and what stands before and behind it is encoded as if the text ended and began
// there. Decoding gives the bytes back; with a normal form, those of the normalized text; with add_prefix_space, with
// that space. Thread rule: one thread; it may outlive nothing that it was made from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/bpe.h"
#include "train/bpe_cache.h"

namespace cleave {

class BpeEncoder {
  public:
    explicit BpeEncoder(const Bpe& bpe) : bpe_(bpe), splitter_(bpe.stages) {}
    // Appends. Throws UserError where the vocabulary lacks a byte of the text.
    void encode(std::string_view text, std::vector<Token>& tokens);

  private:
    template <class Between>
    void cut_at(const AddedTokens& added, std::string_view text, Between&& between);
    void encode_bytes(std::string_view text);
    void encode_utf8(std::string_view text);
    void encode_word(std::string_view word);
    void merge_word(std::string_view word);

    const Bpe& bpe_;
    WordSplitter splitter_;
    BpeCache cache_;
    BpeMerges::Scratch scratch_;
    std::string normalized_;
    std::vector<Token> word_;
    std::vector<Token>* tokens_ = nullptr;  // of the text being encoded
};

}  // namespace cleave

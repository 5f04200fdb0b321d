// Added tokens ("<|endoftext|>"): found in a text before anything else is done with it, the leftmost first, of those
// that begin together the longest. Thread rule: immutable once all are added.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "train/bpe_merges.h"

namespace cleave {

class AddedTokens {
  public:
    void add(std::string content, Token token);
    struct Found {
        std::size_t begin;
        std::size_t end;  // begin where there is none: both are the text's size
        Token token;
    };
    // The first at or behind `from`.
    Found find(std::string_view text, std::size_t from) const;
    bool empty() const { return tokens_.empty(); }

  private:
    struct Entry {
        std::string content;
        Token token;
    };
    std::vector<Entry> tokens_;             // sorted by first byte, then the longer first
    std::array<std::size_t, 257> first_{};  // where in tokens_ those that begin with a byte stand
};

}  // namespace cleave

// Text to tokens and back. characters: the sorted Unicode code points that occur in a text, numbered from 0. bytes:
// token = byte, 256 of them, for any file. decode(encode(text)) is text, byte for byte. Thread rule: a Tokenizer is
// immutable after construction; a StreamingDecoder belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "train/job.h"

namespace cleave {

using Token = std::int32_t;

class Tokenizer {
  public:
    static Tokenizer bytes();
    // Throws UserError where text is not UTF-8: source, line and byte, and that the byte tokenizer would accept it.
    static Tokenizer characters(std::string_view text, std::string_view source);
    static Tokenizer from_json(const Json& json, std::string_view source);
    Json to_json() const;  // {"kind": "char", "characters": ["\n", " ", ...]} or {"kind": "bytes"}

    TokenizerKind kind() const { return kind_; }
    std::int64_t vocabulary() const;
    // Throws UserError naming the first character that is not in the vocabulary; `what` is the text's name in it.
    std::vector<Token> encode(std::string_view text, std::string_view what) const;
    std::string decode(std::span<const Token> tokens) const;
    friend bool operator==(const Tokenizer&, const Tokenizer&) = default;

  private:
    Tokenizer(TokenizerKind kind, std::vector<char32_t> characters);
    Token find(char32_t character) const;  // -1: not in the vocabulary

    TokenizerKind kind_;
    std::vector<char32_t> characters_;  // sorted; token i is characters_[i]
    std::array<Token, 128> ascii_{};    // what find answers for most characters of most texts
};

// Decodes token by token for a screen: holds back the first bytes of a character until it is whole.
class StreamingDecoder {
  public:
    explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
    std::string add(Token token);
    std::string finish();  // what was held back

  private:
    const Tokenizer& tokenizer_;
    std::string held_;
};

}  // namespace cleave

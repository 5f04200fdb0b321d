// Text to tokens and back. characters: the sorted Unicode code points that occur in a text, numbered from 0. bytes:
// token = byte, 256 of them, for any file. bpe: a Hugging Face tokenizer.json (bpe.h), with the ids of that library and
// no token added at the beginning or end. ids: tokens of a file that says nothing of a text. decode(encode(text)) is
// text, byte for byte (bpe: of the normalized text, bpe_encoder.h). Thread rule: a Tokenizer is immutable after
// construction; a StreamingDecoder belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "train/bpe.h"
#include "train/job.h"

namespace cleave {

class Tokenizer {
  public:
    using Progress = std::function<void(std::size_t)>;

    static Tokenizer bytes();
    // Throws UserError where text is not UTF-8: source, line and byte, and that the byte tokenizer would accept it.
    static Tokenizer characters(std::string_view text, std::string_view source);
    static Tokenizer bpe(std::shared_ptr<const Bpe> bpe);
    static Tokenizer ids(std::int64_t vocabulary);
    // `source`: the checkpoint that `json` is from. Of a bpe it holds the hash; its tokenizer.json is in the run
    // folder.
    static Tokenizer from_json(const Json& json, std::string_view source);
    // {"kind": "char", "characters": ["\n", " ", ...]}, {"kind": "bytes"}, {"kind": "bpe", "xxh64": "..."} or
    // {"kind": "ids", "vocabulary": 50257}
    Json to_json() const;

    TokenizerKind kind() const { return kind_; }
    std::int64_t vocabulary() const;
    // Throws UserError naming the first character that is not in the vocabulary; `what` is the text's name in it.
    // A long text is encoded by all cores where that gives the same tokens (bpe); `progress` is told the bytes done.
    std::vector<Token> encode(std::string_view text, std::string_view what, const Progress& progress = {}) const;
    // A token beyond the vocabulary, which a model with more rows may write, is U+FFFD.
    std::string decode(std::span<const Token> tokens) const;
    // A special or other added token of a bpe by its text ("<|endoftext|>").
    std::optional<Token> added_token(const std::string& name) const;
    // The text of a bpe's tokenizer.json, to be kept beside what was made with it; empty for the others.
    std::string_view file_text() const;
    friend bool operator==(const Tokenizer& a, const Tokenizer& b) { return a.to_json() == b.to_json(); }

  private:
    Tokenizer(TokenizerKind kind, std::vector<char32_t> characters);
    std::string text_of(Token token) const;
    Token find(char32_t character) const;  // -1: not in the vocabulary

    TokenizerKind kind_;
    std::vector<char32_t> characters_;  // sorted; token i is characters_[i]
    std::array<Token, 128> ascii_{};    // what find answers for most characters of most texts
    std::shared_ptr<const Bpe> bpe_;
    std::int64_t ids_ = 0;
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

// A byte-level BPE tokenizer as data, read from a Hugging Face tokenizer.json; bpe_encoder.h turns text into its
// tokens. Its ids equal those of that library (encode with add_special_tokens=False: post-processors, truncation and
// padding are about single inputs and play no part here). What a file asks for beyond what is understood is refused by
// name. Thread rule: immutable after reading.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "train/bpe_added.h"
#include "train/bpe_merges.h"
#include "train/bpe_words.h"

namespace cleave {

struct Bpe {
    std::string source;           // the file's name, for messages
    std::string file_text;        // of the tokenizer.json, so that it can be kept beside a run
    std::uint64_t file_hash = 0;  // XXH64 of file_text

    std::vector<std::string> bytes;    // what token i stands for; empty for numbers that no token has
    std::array<Token, 256> of_byte{};  // -1: no token is this byte
    BpeMerges merges{0};
    bool ignore_merges = false;                    // a word that is a token is taken whole
    std::unordered_map<std::string, Token> whole;  // the vocabulary by bytes, where ignore_merges needs it
    bool normal_form_c = false;
    std::vector<WordStage> stages;
    bool cuts_at_lines = false;                    // the stages' patterns let a long text be cut: bpe_parallel.h
    AddedTokens added;                             // looked for in the text as it is
    AddedTokens added_normalized;                  // and in the normalized text between those
    std::unordered_map<std::string, Token> names;  // all added tokens by content

    std::int64_t vocabulary() const { return static_cast<std::int64_t>(bytes.size()); }
    // An added token by its content ("<|endoftext|>").
    std::optional<Token> find(const std::string& name) const {
        const auto at = names.find(name);
        return at == names.end() ? std::nullopt : std::optional(at->second);
    }
};

// Throws UserError, naming the file: not JSON, damaged, or asking for what is not supported.
std::shared_ptr<const Bpe> read_bpe(const std::filesystem::path& path);
std::shared_ptr<const Bpe> parse_bpe(std::string text, std::string_view source);

}  // namespace cleave

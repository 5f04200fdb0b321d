// Files of token ids, mapped: what `cleave tokenize` writes and what other trainers read. Told apart by what they begin
// with, and by the index beside them:
//
//   Megatron-LM   NAME.bin and NAME.idx (megatron_index.h), which knows the documents; both must agree in size
//   our container (checkpoint_file.h): a tensor "tokens" and the tokenizer
//   llm.c         256 i32 (magic, version, count), then ids: magic 20240520 version 1 u16 (GPT-2), 20240801 version 7
//                 u32 (Llama 3)
//   nanoGPT       u16 ids and nothing else: whatever is none of the others
//
// Thread rule: immutable after construction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint_file.h"
#include "train/token_view.h"

namespace cleave {

// Whether a data.path is a token file: its name ends in .bin or .idx.
bool is_token_file(const std::filesystem::path& path);

class TokenFile {
  public:
    // Throws UserError: missing, damaged, hostile or empty.
    explicit TokenFile(const std::filesystem::path& path);

    TokenView tokens() const { return tokens_; }
    // Where documents begin, in tokens, rising from 0; empty where the format does not know.
    const std::vector<std::int64_t>& document_starts() const { return document_starts_; }
    // As Tokenizer::to_json() made it; null where the format does not know.
    const Json& tokenizer() const { return tokenizer_; }
    // Says on standard error which format the file was read as: the last of them has no mark to know it by.
    void announce() const;
    std::uint64_t hash() const { return hash_; }  // XXH64 of the ids as they stand there
    // Throws UserError for the first id that is not below `vocabulary`; `reason` says where that number is from.
    void check_ids(std::int64_t vocabulary, std::string_view reason) const;

  private:
    void open_container();
    void open_megatron(const std::filesystem::path& index);
    void open_llmc();
    void open_raw();
    void set_tokens(std::span<const std::byte> bytes, std::size_t width);
    [[noreturn]] void fail(const std::string& what) const;

    std::filesystem::path path_;
    std::optional<MappedFile> file_;
    std::optional<CheckpointFile> container_;
    TokenView tokens_;
    std::vector<std::int64_t> document_starts_;
    Json tokenizer_;
    std::string format_;  // in words
    std::uint64_t hash_ = 0;
};

}  // namespace cleave

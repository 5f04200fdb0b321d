// A text file as tokens: read once, kept in a token file (the container of checkpoint_file.h) and mapped from there;
// rebuilt when the text or the tokenizer is another. The first train_fraction of the tokens is for training, the rest
// for validation. Thread rule: immutable after construction; all rank threads share one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "train/checkpoint_file.h"
#include "train/job.h"
#include "train/tokenizer.h"

namespace cleave {

enum class Part : std::uint8_t { train, validation };
constexpr std::string_view name_of(Part part) {
    return part == Part::train ? "train" : "validation";
}

// What the check of a job needs to know of its text.
struct DatasetFacts {
    std::int64_t train_tokens = 0;
    std::int64_t validation_tokens = 0;
    std::int64_t vocabulary = 0;
};

class Dataset {
  public:
    // The text of data.path. With a `token_file`, tokens are mapped from it, and it is written first where it is
    // missing, damaged or of another text; without one they stay in memory. Throws UserError for a text that is
    // missing, empty or not what the tokenizer accepts.
    static Dataset open(const Job::Data& data, const std::optional<std::filesystem::path>& token_file);
    static Dataset from_text(std::string_view text, const Job::Data& data);

    std::span<const Token> tokens(Part part) const;
    const Tokenizer& tokenizer() const { return tokenizer_; }
    DatasetFacts facts() const;
    // XXH64 of the text: a resumed run must learn from the same one.
    std::uint64_t text_hash() const { return text_hash_; }

  private:
    Dataset(Tokenizer tokenizer, std::uint64_t text_hash, const Job::Data& data)
        : tokenizer_(std::move(tokenizer)), text_hash_(text_hash), train_fraction_(data.train_fraction) {}
    std::span<const Token> all() const;

    Tokenizer tokenizer_;
    std::uint64_t text_hash_;
    double train_fraction_;
    std::vector<Token> memory_;           // where there is no token file
    std::optional<CheckpointFile> file_;  // mapped
};

}  // namespace cleave

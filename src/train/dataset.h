// What a run learns from, as tokens. A text is read once, kept in a token file (the container of checkpoint_file.h) and
// mapped from there; rebuilt when the text or the tokenizer is another. A token file (token_file.h) is mapped as it is.
// The first train_fraction of the tokens is for training, the rest for validation. Thread rule: immutable after
// construction; all rank threads share one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "train/checkpoint_file.h"
#include "train/job.h"
#include "train/label_mask.h"
#include "train/token_file.h"
#include "train/token_view.h"
#include "train/tokenizer.h"

namespace cleave {

enum class Part : std::uint8_t { train, validation };
constexpr std::string_view name_of(Part part) {
    return part == Part::train ? "train" : "validation";
}

// What is wrong with the keys of [data], short of reading what they name: files that are missing, folders or empty, or
// named where they have no meaning.
std::vector<std::string> data_problems(const Job::Data& data);
// What is wrong with one file that `key` names: missing, no regular file, or empty.
std::optional<std::string> file_problem(std::string_view key, const std::string& name, std::string_view accepted);

// How many of `size` tokens are the train part.
std::size_t train_tokens(std::size_t size, double train_fraction);

class Dataset {
  public:
    // The text or token file of data.path. With a `token_file`, the tokens of a text are mapped from it, and it is
    // written first where it is missing, damaged or of another text; without one they stay in memory. `vocabulary`:
    // model.vocabulary, which a token file needs where no tokenizer goes with it. Throws UserError for data that are
    // missing, empty, damaged or not what the tokenizer accepts.
    static Dataset open(const Job::Data& data, const std::optional<std::filesystem::path>& token_file,
                        std::int64_t vocabulary = 0);
    static Dataset from_text(std::string_view text, const Job::Data& data);

    TokenView tokens(Part part) const;
    // Where documents begin in tokens(part), rising; the first, which may have begun before the part, at 0. Empty where
    // the data do not know documents.
    std::vector<std::int64_t> document_starts(Part part) const;
    // One byte a token of tokens(part), 0 where it is no label; empty where every token is one.
    std::span<const std::byte> mask(Part part) const;
    const Tokenizer& tokenizer() const { return tokenizer_; }
    // XXH64 of the text (of a token file: of its ids): a resumed run must learn from the same one.
    std::uint64_t text_hash() const { return text_hash_; }
    std::uint64_t mask_hash() const { return mask_ ? mask_->hash() : 0; }  // 0: there is none

  private:
    Dataset(Tokenizer tokenizer, std::uint64_t text_hash, const Job::Data& data)
        : tokenizer_(std::move(tokenizer)), text_hash_(text_hash), train_fraction_(data.train_fraction) {}
    static Dataset open_text(const Job::Data& data, const std::optional<std::filesystem::path>& token_file);
    static Dataset open_tokens(const Job::Data& data, std::int64_t vocabulary);
    void add_labels_and_documents(const Job::Data& data);
    const std::vector<std::int64_t>& all_starts() const;
    TokenView all() const;
    std::size_t cut() const;  // the size of the train part

    Tokenizer tokenizer_;
    std::uint64_t text_hash_;
    double train_fraction_;
    std::vector<Token> memory_;           // of a text where there is no token file
    std::optional<CheckpointFile> file_;  // of a text, mapped
    std::optional<TokenFile> tokens_;     // what data.path is
    std::optional<LabelMask> mask_;
    std::vector<std::int64_t> document_starts_;  // by data.document_end
};

}  // namespace cleave

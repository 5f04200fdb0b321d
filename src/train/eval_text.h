// The text that an evaluation covers, as tokens of the model's vocabulary. Thread rule: immutable after construction.
#pragma once

#include <optional>
#include <vector>

#include "train/eval_options.h"
#include "train/token_file.h"
#include "train/weights_source.h"

namespace cleave {

class EvalText {
  public:
    // `options` has a data and a valid part. Throws UserError where the file is missing, empty or damaged, has tokens
    // that the model has not, or fewer than two in the part.
    EvalText(const WeightsSource& source, const EvalOptions& options);

    TokenView tokens() const { return part_; }
    // Where its documents begin, rising from 0; empty where the model has not learned to tell them apart
    // (data.separate_documents of its run), or nothing says where they begin.
    const std::vector<std::int64_t>& document_starts() const { return document_starts_; }
    // Of the text that the tokens stand for; none where they are ids without a tokenizer.
    std::optional<std::int64_t> bytes() const { return bytes_; }

  private:
    void open_tokens(const WeightsSource& source, const std::string& path);
    void encode(const WeightsSource& source, const std::string& path);
    void cut(const WeightsSource& source, const EvalOptions& options);
    void find_documents(const WeightsSource& source, const std::string& path);

    std::optional<Tokenizer> tokenizer_;
    std::optional<TokenFile> file_;
    std::vector<Token> encoded_;
    TokenView all_;
    TokenView part_;
    std::size_t part_begin_ = 0;
    std::vector<std::int64_t> document_starts_;
    std::optional<std::int64_t> bytes_;
};

}  // namespace cleave

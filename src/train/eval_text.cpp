#include "train/eval_text.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "train/dataset.h"
#include "train/documents.h"

namespace cleave {

namespace {

// The lengths of what the tokens stand for.
std::optional<std::int64_t> decoded_bytes(const std::optional<Tokenizer>& tokenizer, TokenView tokens) {
    if (!tokenizer || tokenizer->kind() == TokenizerKind::ids) return std::nullopt;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const Token token = tokens[i];
        bytes += static_cast<std::int64_t>(tokenizer->decode(std::span(&token, 1)).size());
    }
    return bytes;
}

}  // namespace

EvalText::EvalText(const WeightsSource& source, const EvalOptions& options) {
    if (const auto problem = file_problem("--data", options.data, "a text file or a token file"))
        throw UserError("{}", *problem);
    if (is_token_file(options.data))
        open_tokens(source, options.data);
    else
        encode(source, options.data);
    cut(source, options);
    find_documents(source, options.data);
}

// Of the part. What is known of the whole file's documents and not asked for is said.
void EvalText::find_documents(const WeightsSource& source, const std::string& path) {
    const Job::Data& data = source.job().data;
    std::vector<std::int64_t> all;
    if (tokenizer_ && !data.document_end.empty())
        all = cleave::document_starts(all_, document_end_token(*tokenizer_, data.document_end));
    else if (file_)
        all = file_->document_starts();
    if (!data.separate_documents) {
        if (all.size() > 1)
            log_info(
                "windows go over the borders of the {} documents of {}, as the model has data.separate_documents = "
                "false",
                all.size(), path);
        return;
    }
    if (all.empty()) {
        log_warning(
            "{} does not say where its documents begin: windows go over their borders, though {} has learned with "
            "data.separate_documents",
            path, source.description());
        return;
    }
    const std::size_t begin = part_begin_, end = begin + part_.size();
    document_starts_ = {0};
    for (const std::int64_t start : all)
        if (const auto at = static_cast<std::size_t>(start); at > begin && at < end)
            document_starts_.push_back(static_cast<std::int64_t>(at - begin));
}

void EvalText::open_tokens(const WeightsSource& source, const std::string& path) {
    try {
        tokenizer_ = source.tokenizer();
    } catch (const UserError& error) {
        log_warning("{}: bits per byte are not known", error.what());
    }
    file_.emplace(path);
    file_->announce();
    const Json& theirs = file_->tokenizer();
    if (tokenizer_ && !theirs.is_null() && theirs != tokenizer_->to_json())
        throw UserError("--data: '{}' was made with another tokenizer than the one of {}", path, source.description());
    if (tokenizer_)
        file_->check_ids(tokenizer_->vocabulary(), "the vocabulary of the model's tokenizer");
    else
        file_->check_ids(source.model().vocabulary, "the model's vocabulary");
    all_ = file_->tokens();
}

void EvalText::encode(const WeightsSource& source, const std::string& path) {
    tokenizer_ = source.tokenizer();
    const MappedFile mapped(path);
    const auto size = mapped.size();
    const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), size);
    constexpr std::size_t kLong = 20'000'000;  // bytes: one is waited for
    Tokenizer::Progress progress;
    if (size > kLong)
        progress = [size](std::size_t done) {
            standard_log().progress(fmt::format("{} of {} MB as tokens", done / 1'000'000, size / 1'000'000));
        };
    encoded_ = tokenizer_->encode(text, path, progress);
    standard_log().end_progress();
    all_ = TokenView(std::span<const Token>(encoded_));
    bytes_ = static_cast<std::int64_t>(size);
}

void EvalText::cut(const WeightsSource& source, const EvalOptions& options) {
    const std::size_t border = train_tokens(all_.size(), source.job().data.train_fraction);
    part_begin_ = options.part == "validation" ? border : 0;
    part_ = options.part == "all" ? all_ : options.part == "train" ? all_.first(border) : all_.subspan(border);
    if (part_.size() < 2)
        throw UserError(
            "--data: '{}' has {} token{}{}; accepted: at least 2, since each token is predicted from those before it",
            options.data, part_.size(), part_.size() == 1 ? "" : "s",
            options.part == "all" ? "" : fmt::format(" in its {} part", options.part));
    if (options.part != "all" || !bytes_) bytes_ = decoded_bytes(tokenizer_, part_);
}

}  // namespace cleave

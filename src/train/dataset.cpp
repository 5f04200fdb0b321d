#include "train/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/documents.h"
#include "train/job_check.h"
#include "train/token_format.h"
#include "train/token_writer.h"

namespace cleave {
namespace {

Tokenizer tokenizer_for(std::string_view text, const Job::Data& data) {
    switch (data.tokenizer) {
        case TokenizerKind::bytes: return Tokenizer::bytes();
        case TokenizerKind::bpe: return Tokenizer::bpe(read_bpe(data.tokenizer_file));
        default: return Tokenizer::characters(text, data.path);
    }
}

std::string hash_text(std::uint64_t hash) {
    return fmt::format("{:016x}", hash);
}

// The token file if it holds exactly this text's tokens.
std::optional<CheckpointFile> usable(const std::filesystem::path& path, const Tokenizer& tokenizer,
                                     std::uint64_t hash) {
    if (!std::filesystem::exists(path)) return std::nullopt;
    try {
        CheckpointFile file(path);
        const Json* saved_hash = file.metadata().find(kTextHashName);
        const Json* saved_tokenizer = file.metadata().find("tokenizer");
        const CheckpointTensor* tokens = file.find(kTokensName);
        const bool same = saved_hash != nullptr && *saved_hash == Json(hash_text(hash)) && saved_tokenizer != nullptr &&
                          *saved_tokenizer == tokenizer.to_json() && tokens != nullptr &&
                          tokens->dtype == dtype_of<Token>() && tokens->shape.rank() == 1;
        if (same) return file;
        log_info("the text or its tokenizer has changed since '{}' was written: writing it again", path.string());
    } catch (const UserError& error) {
        log_warning("{}; writing it again", error.what());
    }
    return std::nullopt;
}

Tokenizer bpe_for(const Job::Data& data, const Json& saved) {
    Tokenizer tokenizer = Tokenizer::bpe(read_bpe(data.tokenizer_file));
    if (!saved.is_null() && saved != tokenizer.to_json())
        throw UserError("data.tokenizer_file: '{}' is another tokenizer than the one that '{}' was made with",
                        data.tokenizer_file, data.path);
    return tokenizer;
}

// The tokenizer of a token file that holds `saved`: what it says itself, unless data.tokenizer is more than the
// default.
Tokenizer tokenizer_for_tokens(const Json& saved, const Job::Data& data, std::int64_t vocabulary) {
    if (data.tokenizer == TokenizerKind::bpe) return bpe_for(data, saved);
    const bool bytes = data.tokenizer == TokenizerKind::bytes;
    if (saved.is_null() && bytes) return Tokenizer::bytes();
    if (saved.is_null() && vocabulary > 0) return Tokenizer::ids(vocabulary);
    if (saved.is_null())
        throw UserError(
            "model.vocabulary: found 0, but '{}' holds token ids and does not say how many there are; accepted: "
            "model.vocabulary = their number, or data.tokenizer = \"bpe\" with data.tokenizer_file",
            data.path);
    const Json* kind = saved.find("kind");
    if (kind != nullptr && *kind == Json("bpe"))
        throw UserError(
            "data.tokenizer: '{}' was made with a tokenizer.json; accepted: \"bpe\", with that file as "
            "data.tokenizer_file",
            data.path);
    Tokenizer tokenizer = Tokenizer::from_json(saved, data.path);
    if (bytes && tokenizer != Tokenizer::bytes())
        throw UserError("data.tokenizer: found \"bytes\", but '{}' was made with another tokenizer", data.path);
    return tokenizer;
}

std::optional<std::string> text_problem(const Job::Data& data) {
    if (data.path.empty())
        return "data.path: no text is named; accepted: any text file, in the run file or as --set data.path=FILE";
    return file_problem("data.path", data.path, "a text file");
}

std::optional<std::string> tokenizer_problem(const Job::Data& data) {
    const bool needed = data.tokenizer == TokenizerKind::bpe;
    if (needed && data.tokenizer_file.empty())
        return "data.tokenizer_file: no file is named; data.tokenizer = \"bpe\" accepts a Hugging Face tokenizer.json";
    if (!needed && !data.tokenizer_file.empty())
        return fmt::format(
            "data.tokenizer_file: found '{}', which only data.tokenizer = \"bpe\" reads; accepted: that, or "
            "no file",
            data.tokenizer_file);
    return std::nullopt;
}

std::optional<std::string> mask_problem(const Job::Data& data) {
    if (data.mask.empty()) return std::nullopt;
    if (!is_token_file(data.path) && data.tokenizer != TokenizerKind::bytes)
        return fmt::format(
            "data.mask: found '{}', but a byte of it stands for a token, and what is a token of the text '{}' the "
            "tokenizer decides; accepted: a token file as data.path (cleave tokenize), data.tokenizer = \"bytes\", or "
            "no mask",
            data.mask, data.path);
    return file_problem("data.mask", data.mask, "a file of one byte a token");
}

std::optional<std::string> documents_problem(const Job::Data& data) {
    if (!data.separate_documents && !data.document_end.empty())
        return fmt::format(
            "data.document_end: found \"{}\" without data.separate_documents; accepted: \"\", or "
            "data.separate_documents = true",
            data.document_end);
    return std::nullopt;
}

}  // namespace

std::optional<std::string> file_problem(std::string_view key, const std::string& name, std::string_view accepted) {
    const std::filesystem::path path(name);
    std::error_code problem;
    const auto status = std::filesystem::status(path, problem);
    if (status.type() == std::filesystem::file_type::none)
        return fmt::format("{}: '{}': {}; accepted: {}", key, name, problem.message(), accepted);
    if (!std::filesystem::exists(status))
        return fmt::format("{}: there is no file '{}'; accepted: {} (looked for {})", key, name, accepted,
                           std::filesystem::absolute(path).lexically_normal().string());
    if (std::filesystem::is_directory(status))
        return fmt::format("{}: '{}' is a folder; accepted: {}", key, name, accepted);
    if (!std::filesystem::is_regular_file(status))
        return fmt::format("{}: '{}' is a pipe or a device; accepted: {} on a disk", key, name, accepted);
    if (std::filesystem::file_size(path, problem) == 0)
        return fmt::format("{}: '{}' is empty; accepted: {} that is not", key, name, accepted);
    return std::nullopt;
}

std::vector<std::string> data_problems(const Job::Data& data) {
    std::vector<std::string> problems;
    for (auto& problem : {text_problem(data), tokenizer_problem(data), mask_problem(data), documents_problem(data)})
        if (problem) problems.push_back(*problem);
    return problems;
}

Dataset Dataset::open(const Job::Data& data, const std::optional<std::filesystem::path>& token_file,
                      std::int64_t vocabulary) {
    throw_problems(data_problems(data));
    Dataset dataset = is_token_file(data.path) ? open_tokens(data, vocabulary) : open_text(data, token_file);
    dataset.add_labels_and_documents(data);
    return dataset;
}

Dataset Dataset::open_text(const Job::Data& data, const std::optional<std::filesystem::path>& token_file) {
    const MappedFile file(data.path);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
    Dataset dataset(tokenizer_for(text, data), hash64(text), data);
    if (!token_file) {
        dataset.memory_ = dataset.tokenizer_.encode(text, data.path);
        return dataset;
    }
    dataset.file_ = usable(*token_file, dataset.tokenizer_, dataset.text_hash_);
    if (!dataset.file_) {
        write_token_file(*token_file, TokenFormat::cleave, dataset.tokenizer_.encode(text, data.path),
                         dataset.tokenizer_, dataset.text_hash_);
        dataset.file_.emplace(*token_file);
    }
    return dataset;
}

Dataset Dataset::from_text(std::string_view text, const Job::Data& data) {
    Dataset dataset(tokenizer_for(text, data), hash64(text), data);
    dataset.memory_ = dataset.tokenizer_.encode(text, data.path);
    dataset.add_labels_and_documents(data);
    return dataset;
}

Dataset Dataset::open_tokens(const Job::Data& data, std::int64_t vocabulary) {
    TokenFile file(data.path);
    Dataset dataset(tokenizer_for_tokens(file.tokenizer(), data, vocabulary), file.hash(), data);
    const bool counted = dataset.tokenizer_.kind() == TokenizerKind::ids;
    file.check_ids(dataset.tokenizer_.vocabulary(), counted ? "model.vocabulary" : "the vocabulary of the tokenizer");
    dataset.tokens_.emplace(std::move(file));
    return dataset;
}

std::size_t train_tokens(std::size_t size, double train_fraction) {
    return std::min(size, static_cast<std::size_t>(train_fraction * static_cast<double>(size)));
}

TokenView Dataset::all() const {
    if (tokens_) return tokens_->tokens();
    if (!file_) return {memory_};
    return {file_->find(kTokensName)->bytes, sizeof(Token)};
}

std::size_t Dataset::cut() const {
    return train_tokens(all().size(), train_fraction_);
}

TokenView Dataset::tokens(Part part) const {
    return part == Part::train ? all().first(cut()) : all().subspan(cut());
}

void Dataset::add_labels_and_documents(const Job::Data& data) {
    if (!data.mask.empty()) mask_.emplace(data.mask, all().size());
    if (!data.separate_documents) return;
    if (!data.document_end.empty()) {
        document_starts_ = cleave::document_starts(all(), document_end_token(tokenizer_, data.document_end));
        if (document_starts_.size() == 1)
            throw UserError("data.document_end: \"{}\" ends nothing: '{}' is one document", data.document_end,
                            data.path);
    } else if (all_starts().empty()) {
        throw UserError(
            "data.separate_documents: '{}' does not say where its documents begin; accepted: data.document_end, the "
            "token that ends each of them, or a Megatron file with its .idx",
            data.path);
    }
}

const std::vector<std::int64_t>& Dataset::all_starts() const {
    return document_starts_.empty() && tokens_ ? tokens_->document_starts() : document_starts_;
}

std::vector<std::int64_t> Dataset::document_starts(Part part) const {
    const auto begin = static_cast<std::int64_t>(part == Part::train ? 0 : cut());
    const auto end = static_cast<std::int64_t>(part == Part::train ? cut() : all().size());
    if (begin == end || all_starts().empty()) return {};
    std::vector<std::int64_t> starts = {0};
    for (const std::int64_t start : all_starts())
        if (start > begin && start < end) starts.push_back(start - begin);
    return starts;
}

std::span<const std::byte> Dataset::mask(Part part) const {
    if (!mask_) return {};
    return part == Part::train ? mask_->bytes().first(cut()) : mask_->bytes().subspan(cut());
}

}  // namespace cleave

#include "train/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"

namespace cleave {
namespace {

constexpr std::string_view kTokens = "tokens";
constexpr std::string_view kTextHash = "text_xxh64";

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
        const Json* saved_hash = file.metadata().find(kTextHash);
        const Json* saved_tokenizer = file.metadata().find("tokenizer");
        const CheckpointTensor* tokens = file.find(kTokens);
        const bool same = saved_hash != nullptr && *saved_hash == Json(hash_text(hash)) && saved_tokenizer != nullptr &&
                          *saved_tokenizer == tokenizer.to_json() && tokens != nullptr &&
                          tokens->dtype == dtype_of<Token>() && tokens->shape.rank() == 1;
        if (same) return file;
        log_info("the text has changed since '{}' was written: writing it again", path.string());
    } catch (const UserError& error) {
        log_warning("{}; writing it again", error.what());
    }
    return std::nullopt;
}

void write_tokens(const std::filesystem::path& path, const std::vector<Token>& tokens, const Tokenizer& tokenizer,
                  std::uint64_t hash) {
    CheckpointWriter writer;
    writer.add(std::string(kTokens), dtype_of<Token>(), {static_cast<std::int64_t>(tokens.size())}, tokens.data());
    writer.write(path, Json::object().set(kTextHash, hash_text(hash)).set("tokenizer", tokenizer.to_json()));
}

}  // namespace

std::optional<std::string> text_problem(const Job::Data& data) {
    const std::filesystem::path path(data.path);
    if (data.path.empty())
        return "data.path: no text is named; accepted: any text file, in the run file or as --set data.path=FILE";
    if (!std::filesystem::exists(path))
        return fmt::format("data.path: there is no file '{}'; accepted: a text file (looked for {})", data.path,
                           std::filesystem::absolute(path).lexically_normal().string());
    if (std::filesystem::is_directory(path))
        return fmt::format("data.path: '{}' is a folder; accepted: one text file", data.path);
    if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) == 0)
        return fmt::format("data.path: '{}' is empty; accepted: a file with text", data.path);
    return std::nullopt;
}

Dataset Dataset::open(const Job::Data& data, const std::optional<std::filesystem::path>& token_file) {
    if (const auto problem = text_problem(data)) throw UserError("{}", *problem);
    const MappedFile file(data.path);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
    if (!token_file) return from_text(text, data);

    Dataset dataset(tokenizer_for(text, data), hash64(text), data);
    dataset.file_ = usable(*token_file, dataset.tokenizer_, dataset.text_hash_);
    if (!dataset.file_) {
        write_tokens(*token_file, dataset.tokenizer_.encode(text, data.path), dataset.tokenizer_, dataset.text_hash_);
        dataset.file_.emplace(*token_file);
    }
    return dataset;
}

Dataset Dataset::from_text(std::string_view text, const Job::Data& data) {
    Dataset dataset(tokenizer_for(text, data), hash64(text), data);
    dataset.memory_ = dataset.tokenizer_.encode(text, data.path);
    return dataset;
}

std::span<const Token> Dataset::all() const {
    if (!file_) return memory_;
    const CheckpointTensor& tokens = *file_->find(kTokens);
    return {reinterpret_cast<const Token*>(tokens.bytes.data()), tokens.bytes.size() / sizeof(Token)};
}

std::span<const Token> Dataset::tokens(Part part) const {
    const auto everything = all();
    const auto cut =
        std::min(everything.size(), static_cast<std::size_t>(train_fraction_ * static_cast<double>(everything.size())));
    return part == Part::train ? everything.first(cut) : everything.subspan(cut);
}

}  // namespace cleave

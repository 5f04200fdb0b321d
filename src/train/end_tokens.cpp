#include "train/end_tokens.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "train/run_folder.h"

namespace cleave {

namespace {

constexpr const char* kFiles[] = {"generation_config.json", "config.json"};
constexpr const char* kNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};

// One id, or a list of them; none where the key is missing or null.
std::vector<Token> ids_in(const std::filesystem::path& file, std::int64_t vocabulary) {
    const Json config = Json::parse(read_text_file(file), file.string());
    const Json* value = config.find("eos_token_id");
    if (value == nullptr || value->is_null()) return {};
    const Json::Array one{*value};
    std::vector<Token> ids;
    for (const Json& item : value->items() == nullptr ? one : *value->items()) {
        const auto* id = item.integer();
        if (id == nullptr || *id < 0)
            throw UserError("{}: eos_token_id: found {}; accepted: a token id, or a list of them", file.string(),
                            value->dump());
        if (*id < vocabulary)
            ids.push_back(static_cast<Token>(*id));
        else
            log_warning("{}: eos_token_id: {} is none of the tokenizer's {} tokens and never comes", file.string(), *id,
                        vocabulary);
    }
    return ids;
}

}  // namespace

std::vector<Token> end_tokens(const WeightsSource& source, const Tokenizer& tokenizer) {
    const auto beside = source.tokenizer_file();
    if (!beside) return {};
    for (const char* name : kFiles) {
        const auto file = beside->parent_path() / name;
        if (!std::filesystem::is_regular_file(file)) continue;
        if (auto ids = ids_in(file, tokenizer.vocabulary()); !ids.empty()) return ids;
    }
    for (const char* name : kNames)
        if (const auto token = tokenizer.added_token(name)) return {*token};
    return {};
}

}  // namespace cleave

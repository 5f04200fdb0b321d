#include "train/documents.h"

#include <charconv>

#include "base/error.h"

namespace cleave {
namespace {

constexpr std::string_view kName = "data.document_end";

Token parse_id(const std::string& text, std::int64_t vocabulary) {
    Token id = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (problem != std::errc() || end != text.data() + text.size() || id < 0 || id >= vocabulary)
        throw UserError("{}: found \"{}\"; accepted, as the tokens stand for no text: an id from 0 to {}", kName, text,
                        vocabulary - 1);
    return id;
}

}  // namespace

Token document_end_token(const Tokenizer& tokenizer, const std::string& document_end) {
    if (tokenizer.kind() == TokenizerKind::ids) return parse_id(document_end, tokenizer.vocabulary());
    const std::vector<Token> tokens = tokenizer.encode(document_end, kName);
    if (tokens.size() != 1)
        throw UserError(
            "{}: found \"{}\", which is {} tokens; accepted: the text of one token (of a bpe a special token, such as "
            "\"<|endoftext|>\")",
            kName, document_end, tokens.size());
    return tokens.front();
}

std::vector<std::int64_t> document_starts(TokenView tokens, Token end) {
    std::vector<std::int64_t> starts;
    bool begins = true;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (begins) starts.push_back(static_cast<std::int64_t>(i));
        begins = tokens[i] == end;
    }
    return starts;
}

}  // namespace cleave

#include "train/tokenizer.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/utf8.h"

namespace cleave {
namespace {

constexpr std::int64_t kBytes = 256;

// Where a byte stands in a text, as an editor shows it.
struct Place {
    std::size_t line;
    std::size_t column;  // in bytes
};

Place place_of(std::string_view text, std::size_t at) {
    const std::string_view before = text.substr(0, at);
    const auto line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return {static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1, at - line_start + 1};
}

[[noreturn]] void refuse_bytes(std::string_view text, std::size_t at, std::string_view source) {
    const Place place = place_of(text, at);
    throw UserError(
        "{}: not UTF-8 text: byte 0x{:02x} at line {}, byte {} of the line; convert the file to UTF-8 (for instance "
        "with iconv), "
        "or set data.tokenizer = \"bytes\", which accepts any file",
        source, static_cast<unsigned char>(text[at]), place.line, place.column);
}

// A character as a message shows it.
std::string shown(char32_t character) {
    const auto number = static_cast<std::uint32_t>(character);
    return character < 0x20 || character == 0x7f ? fmt::format("U+{:04X}", number)
                                                 : fmt::format("'{}' (U+{:04X})", to_utf8(character), number);
}

template <class Visit>
void for_each_character(std::string_view text, std::string_view source, Visit&& visit) {
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (!step.valid) refuse_bytes(text, at, source);
        visit(step.code_point, at);
        at += step.length;
    }
}

}  // namespace

Tokenizer::Tokenizer(TokenizerKind kind, std::vector<char32_t> characters)
    : kind_(kind), characters_(std::move(characters)) {
    ascii_.fill(-1);
    for (std::size_t i = 0; i < characters_.size(); ++i)
        if (characters_[i] < ascii_.size()) ascii_[characters_[i]] = static_cast<Token>(i);
}

Tokenizer Tokenizer::bytes() {
    return Tokenizer(TokenizerKind::bytes, {});
}

Tokenizer Tokenizer::characters(std::string_view text, std::string_view source) {
    std::vector<bool> ascii(128, false);
    std::set<char32_t> others;
    for_each_character(text, source, [&](char32_t character, std::size_t) {
        if (character < 128)
            ascii[character] = true;
        else
            others.insert(character);
    });
    std::vector<char32_t> characters;
    for (char32_t c = 0; c < 128; ++c)
        if (ascii[c]) characters.push_back(c);
    characters.insert(characters.end(), others.begin(), others.end());
    return Tokenizer(TokenizerKind::characters, std::move(characters));
}

Tokenizer Tokenizer::from_json(const Json& json, std::string_view source) {
    const Json* kind = json.find("kind");
    if (kind != nullptr && *kind == Json("bytes")) return bytes();
    const Json* list = json.find("characters");
    if (kind == nullptr || *kind != Json("char") || list == nullptr || list->items() == nullptr)
        throw UserError(
            "{}: not a tokenizer: expected {{\"kind\": \"bytes\"}} or {{\"kind\": \"char\", \"characters\": [...]}}",
            source);
    std::vector<char32_t> characters;
    for (const Json& item : *list->items()) {
        const std::string* text = item.string();
        const bool one = text != nullptr && !text->empty() && utf8_step(*text, 0).valid &&
                         utf8_step(*text, 0).length == text->size();
        if (!one) throw UserError("{}: tokenizer: entry {} is not one character", source, characters.size());
        const char32_t character = utf8_step(*text, 0).code_point;
        if (!characters.empty() && characters.back() >= character)
            throw UserError("{}: tokenizer: characters are not in rising order at entry {}", source, characters.size());
        characters.push_back(character);
    }
    return Tokenizer(TokenizerKind::characters, std::move(characters));
}

Json Tokenizer::to_json() const {
    Json json = Json::object();
    if (kind_ == TokenizerKind::bytes) return json.set("kind", "bytes");
    Json list = Json::array();
    for (char32_t character : characters_) list.push(to_utf8(character));
    return json.set("kind", "char").set("characters", std::move(list));
}

std::int64_t Tokenizer::vocabulary() const {
    return kind_ == TokenizerKind::bytes ? kBytes : static_cast<std::int64_t>(characters_.size());
}

Token Tokenizer::find(char32_t character) const {
    if (character < ascii_.size()) return ascii_[character];
    const auto at = std::lower_bound(characters_.begin(), characters_.end(), character);
    return at != characters_.end() && *at == character ? static_cast<Token>(at - characters_.begin()) : -1;
}

std::vector<Token> Tokenizer::encode(std::string_view text, std::string_view what) const {
    std::vector<Token> tokens;
    tokens.reserve(text.size());
    if (kind_ == TokenizerKind::bytes) {
        for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
        return tokens;
    }
    for_each_character(text, what, [&](char32_t character, std::size_t at) {
        const Token token = find(character);
        if (token < 0)
            throw UserError(
                "{}: the character {} at line {} does not occur in the text that the model learned from ({} characters "
                "do)",
                what, shown(character), place_of(text, at).line, characters_.size());
        tokens.push_back(token);
    });
    return tokens;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
    std::string text;
    for (Token token : tokens) {
        CLEAVE_CHECK(token >= 0 && token < vocabulary(), "token {} of {}", token, vocabulary());
        if (kind_ == TokenizerKind::bytes)
            text += static_cast<char>(static_cast<unsigned char>(token));
        else
            append_utf8(text, characters_[static_cast<std::size_t>(token)]);
    }
    return text;
}

std::string StreamingDecoder::add(Token token) {
    held_ += tokenizer_.decode(std::span(&token, 1));
    std::size_t whole = 0;
    while (whole < held_.size()) {
        const Utf8Step step = utf8_step(held_, whole);
        constexpr std::size_t kLongest = 4;
        // An invalid step may be a character whose other bytes are still to come.
        const bool lead = static_cast<unsigned char>(held_[whole]) >= 0xC2;
        if (!step.valid && lead && held_.size() - whole < kLongest) break;
        whole += step.length;
    }
    std::string ready = held_.substr(0, whole);
    held_.erase(0, whole);
    return ready;
}

std::string StreamingDecoder::finish() {
    return std::exchange(held_, {});
}

}  // namespace cleave

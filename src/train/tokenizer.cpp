#include "train/tokenizer.h"

#include <algorithm>
#include <set>

#include "base/cores.h"
#include "base/error.h"
#include "base/utf8.h"
#include "train/bpe_parallel.h"
#include "train/run_folder.h"

namespace cleave {
namespace {

constexpr std::int64_t kByteTokens = 256;

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
        "or take the tokenizer that accepts any file: data.tokenizer = \"bytes\" of a run, --tokenizer bytes of cleave "
        "tokenize",
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

Tokenizer Tokenizer::bpe(std::shared_ptr<const Bpe> bpe) {
    Tokenizer tokenizer(TokenizerKind::bpe, {});
    tokenizer.bpe_ = std::move(bpe);
    return tokenizer;
}

Tokenizer Tokenizer::ids(std::int64_t vocabulary) {
    Tokenizer tokenizer(TokenizerKind::ids, {});
    tokenizer.ids_ = vocabulary;
    return tokenizer;
}

namespace {

Tokenizer bpe_of(const Json& json, std::string_view source) {
    const auto file = RunFolder::tokenizer_of(source);
    if (!std::filesystem::exists(file))
        throw UserError("{}: its tokenizer should be in '{}', which is missing", source, file.string());
    Tokenizer tokenizer = Tokenizer::bpe(read_bpe(file));
    if (tokenizer.to_json() != json)
        throw UserError("{}: '{}' is another tokenizer than the one it was made with (found {}, accepted {})", source,
                        file.string(), tokenizer.to_json().dump(), json.dump());
    return tokenizer;
}

}  // namespace

Tokenizer Tokenizer::from_json(const Json& json, std::string_view source) {
    const Json* kind = json.find("kind");
    if (kind != nullptr && *kind == Json("bytes")) return bytes();
    if (kind != nullptr && *kind == Json("bpe")) return bpe_of(json, source);
    if (kind != nullptr && *kind == Json("ids")) {
        const Json* count = json.find("vocabulary");
        if (count == nullptr || count->integer() == nullptr || *count->integer() < 1)
            throw UserError("{}: tokenizer: no vocabulary of ids", source);
        return ids(*count->integer());
    }
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
    if (kind_ == TokenizerKind::bpe)
        return json.set("kind", "bpe").set("xxh64", fmt::format("{:016x}", bpe_->file_hash));
    if (kind_ == TokenizerKind::ids) return json.set("kind", "ids").set("vocabulary", ids_);
    Json list = Json::array();
    for (char32_t character : characters_) list.push(to_utf8(character));
    return json.set("kind", "char").set("characters", std::move(list));
}

std::int64_t Tokenizer::vocabulary() const {
    switch (kind_) {
        case TokenizerKind::characters: return static_cast<std::int64_t>(characters_.size());
        case TokenizerKind::bytes: return kByteTokens;
        case TokenizerKind::bpe: return bpe_->vocabulary();
        case TokenizerKind::ids: return ids_;
    }
    broken_invariant(__FILE__, __LINE__, "kind", "none of the four");
}

Token Tokenizer::find(char32_t character) const {
    if (character < ascii_.size()) return ascii_[character];
    const auto at = std::lower_bound(characters_.begin(), characters_.end(), character);
    return at != characters_.end() && *at == character ? static_cast<Token>(at - characters_.begin()) : -1;
}

std::vector<Token> Tokenizer::encode(std::string_view text, std::string_view what, const Progress& progress) const {
    if (kind_ == TokenizerKind::bpe) {
        BpeParallel options;
        options.threads = available_cores();
        options.progress = progress;
        return encode_bpe(*bpe_, text, options);
    }
    std::vector<Token> tokens;
    tokens.reserve(text.size());
    if (kind_ == TokenizerKind::bytes) {
        for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
        return tokens;
    }
    if (kind_ == TokenizerKind::ids && !text.empty())
        throw UserError(
            "{}: a text needs a tokenizer, and the data are token ids alone; accepted: no text, or data.tokenizer = "
            "\"bpe\" with data.tokenizer_file",
            what);
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
    for (Token token : tokens) text += text_of(token);
    return text;
}

std::string Tokenizer::text_of(Token token) const {
    CLEAVE_CHECK(token >= 0);
    if (token >= vocabulary()) return to_utf8(0xFFFD);
    switch (kind_) {
        case TokenizerKind::characters: return to_utf8(characters_[static_cast<std::size_t>(token)]);
        case TokenizerKind::bytes: return std::string(1, static_cast<char>(static_cast<unsigned char>(token)));
        case TokenizerKind::bpe: return bpe_->bytes[static_cast<std::size_t>(token)];
        case TokenizerKind::ids: return fmt::format("{} ", token);
    }
    broken_invariant(__FILE__, __LINE__, "kind", "none of the four");
}

std::optional<Token> Tokenizer::added_token(const std::string& name) const {
    return bpe_ ? bpe_->find(name) : std::nullopt;
}

std::string_view Tokenizer::file_text() const {
    return bpe_ ? std::string_view(bpe_->file_text) : std::string_view();
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

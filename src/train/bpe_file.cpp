// Reads tokenizer.json. Every field that changes ids is either understood or refused by name.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "train/bpe.h"
#include "train/bpe_alphabet.h"
#include "train/bpe_normalizer.h"
#include "train/bpe_pre_tokenizer.h"

namespace cleave {
namespace {

constexpr std::int64_t kMostTokens = 1 << 24;

class Reader {
  public:
    Reader(Bpe& bpe, const Json& json) : bpe_(bpe), json_(json) {}

    void run() {
        if (json_.members() == nullptr) fail("it is no tokenizer.json: its content is no object");
        const Json& model = member(json_, "model", "");
        check_model(model);
        read_vocabulary(member(model, "vocab", "model."));
        read_merges(member(model, "merges", "model."));
        read_normalizer();
        PreTokenizer pre_tokenizer = read_pre_tokenizer(json_.find("pre_tokenizer"), bpe_.source);
        bpe_.stages = std::move(pre_tokenizer.stages);
        bpe_.cuts_at_lines = pre_tokenizer.cuts_at_lines;
        check_decoder();
        read_added();
        fill_whole();
    }

  private:
    [[noreturn]] void fail(const std::string& what) const { throw UserError("{}: {}", bpe_.source, what); }

    const Json& member(const Json& object, std::string_view name, std::string_view path) const {
        const Json* value = object.find(name);
        if (value == nullptr)
            fail(fmt::format("it is no tokenizer.json of byte-level BPE: it has no {}{}", path, name));
        return *value;
    }

    // The field is absent, null, or one of these.
    void accept(const Json& object, std::string_view path, std::string_view name, std::initializer_list<Json> values,
                std::string_view accepted) const {
        const Json* value = object.find(name);
        if (value == nullptr || value->is_null()) return;
        if (std::find(values.begin(), values.end(), *value) == values.end())
            fail(fmt::format("{}{}: found {}; accepted: {}", path, name, value->dump(), accepted));
    }

    void check_model(const Json& model) const {
        accept(model, "model.", "type", {"BPE"}, "\"BPE\"");
        accept(model, "model.", "dropout", {0, 0.0}, "null");
        accept(model, "model.", "continuing_subword_prefix", {""}, "null or \"\"");
        accept(model, "model.", "end_of_word_suffix", {""}, "null or \"\"");
        accept(model, "model.", "byte_fallback", {false}, "false");
        accept(model, "model.", "ignore_merges", {false, true}, "true or false");
    }

    void read_vocabulary(const Json& vocabulary) {
        const auto* entries = vocabulary.members();
        if (entries == nullptr || entries->empty()) fail("model.vocab: found no tokens");
        for (const auto& [text, number] : *entries) {
            const Token token = token_number(number, text);
            reserve(token);
            if (used_[index(token)]) fail(fmt::format("model.vocab: the number {} stands for two tokens", token));
            used_[index(token)] = true;
            const auto bytes = bytes_of_alphabet(text);
            bpe_.bytes[index(token)] = bytes.value_or(text);
            if (bytes && !bytes->empty()) in_alphabet_.push_back(token);
            tokens_.emplace(text, token);
        }
        bpe_.of_byte.fill(-1);
        for (const Token token : in_alphabet_) {
            const std::string& bytes = bpe_.bytes[index(token)];
            if (bytes.size() == 1) bpe_.of_byte[static_cast<unsigned char>(bytes.front())] = token;
        }
    }

    Token token_number(const Json& number, std::string_view text) const {
        const std::int64_t* value = number.integer();
        if (value == nullptr || *value < 0 || *value >= kMostTokens)
            fail(fmt::format("the number of token {} is {}; accepted: an integer from 0 to {}", Json(text).dump(),
                             number.dump(), kMostTokens - 1));
        return static_cast<Token>(*value);
    }
    static std::size_t index(Token token) { return static_cast<std::size_t>(token); }
    // A number may be far above the count of tokens, but not so far that memory is asked for that the file does not
    // pay.
    void reserve(Token token) {
        if (index(token) < bpe_.bytes.size()) return;
        constexpr std::size_t kSlack = 1 << 20;
        if (index(token) > bpe_.file_text.size() + kSlack)
            fail(fmt::format("the token number {} is far above what the file has tokens for", token));
        bpe_.bytes.resize(index(token) + 1);
        used_.resize(index(token) + 1);
    }

    void read_merges(const Json& merges) {
        const auto* list = merges.items();
        if (list == nullptr) fail("model.merges: found no list");
        bpe_.merges = BpeMerges(list->size());
        for (std::size_t i = 0; i < list->size(); ++i) {
            const auto [left, right] = halves((*list)[i], i);
            bpe_.merges.add(find(left, i), find(right, i), find(left + right, i));
        }
    }

    // "a b" or ["a", "b"].
    std::pair<std::string, std::string> halves(const Json& merge, std::size_t at) const {
        if (const std::string* text = merge.string()) {
            const auto space = text->find(' ');
            if (space != std::string::npos && text->find(' ', space + 1) == std::string::npos)
                return {text->substr(0, space), text->substr(space + 1)};
        } else if (const auto* two = merge.items(); two != nullptr && two->size() == 2 &&
                                                    two->front().string() != nullptr &&
                                                    two->back().string() != nullptr) {
            return {*two->front().string(), *two->back().string()};
        }
        fail(fmt::format("model.merges: entry {} is {}; accepted: \"a b\" or [\"a\", \"b\"]", at, merge.dump()));
    }

    Token find(const std::string& text, std::size_t at) const {
        const auto token = tokens_.find(text);
        if (token == tokens_.end())
            fail(fmt::format("model.merges: entry {} needs the token {}, which model.vocab lacks", at,
                             Json(text).dump()));
        return token->second;
    }

    void read_normalizer() {
        const Json* normalizer = json_.find("normalizer");
        if (normalizer == nullptr || normalizer->is_null()) return;
        const Json* type = normalizer->find("type");
        const Json* list = normalizer->find("normalizers");
        const bool empty = type != nullptr && *type == Json("Sequence") && list != nullptr && *list == Json::array();
        if (empty) return;
        if (type == nullptr || *type != Json("NFC"))
            fail(
                fmt::format("normalizer: found {}; accepted: null or NFC", type == nullptr ? "no type" : type->dump()));
        bpe_.normal_form_c = true;
    }

    void check_decoder() const {
        const Json* decoder = json_.find("decoder");
        if (decoder == nullptr || decoder->is_null()) return;
        const Json* type = decoder->find("type");
        if (type == nullptr || *type != Json("ByteLevel"))
            fail(fmt::format("decoder: found {}; accepted: ByteLevel", type == nullptr ? "no type" : type->dump()));
    }

    void read_added() {
        const Json* added = json_.find("added_tokens");
        if (added == nullptr || added->is_null()) return;
        if (added->items() == nullptr) fail("added_tokens: found no list");
        const auto in_model = static_cast<Token>(tokens_.size());
        Token next = in_model;
        for (const Json& entry : *added->items()) next = std::max(next, add(entry, next) + 1);
    }

    // `next`: the number that a token gets which the vocabulary lacks.
    Token add(const Json& entry, Token next) {
        const Json* content = entry.find("content");
        const Json* id = entry.find("id");
        if (content == nullptr || content->string() == nullptr || content->string()->empty() || id == nullptr)
            fail(fmt::format("added_tokens: {} has no content or no id", entry.dump()));
        const std::string& text = *content->string();
        const std::string path = fmt::format("added_tokens {}: ", content->dump());
        for (std::string_view flag : {"single_word", "lstrip", "rstrip"}) accept(entry, path, flag, {false}, "false");
        const auto in_model = tokens_.find(text);
        const Token expected = in_model != tokens_.end() ? in_model->second : next;
        const Token token = token_number(*id, text);
        if (token != expected)
            fail(fmt::format("{}its id is {}, the Hugging Face library would give it {}", path, token, expected));
        if (!bpe_.names.emplace(text, token).second) fail(path + "it stands there twice");
        reserve(token);
        used_[index(token)] = true;
        bpe_.bytes[index(token)] = text;
        const Json* normalized = entry.find("normalized");
        if (normalized == nullptr || normalized->boolean() == nullptr)
            fail(path + "normalized: found neither true nor false");
        std::string storage;
        if (*normalized->boolean())
            bpe_.added_normalized.add(std::string(bpe_.normal_form_c ? normal_form_c(text, storage) : text), token);
        else
            bpe_.added.add(text, token);
        return token;
    }

    void fill_whole() {
        const Json* ignore = json_.find("model")->find("ignore_merges");
        bpe_.ignore_merges = ignore != nullptr && *ignore == Json(true);
        if (!bpe_.ignore_merges) return;
        for (const auto& [text, token] : tokens_)
            if (auto bytes = bytes_of_alphabet(text); bytes && !bytes->empty())
                bpe_.whole.emplace(std::move(*bytes), token);
    }

    Bpe& bpe_;
    const Json& json_;
    std::unordered_map<std::string, Token> tokens_;  // model.vocab
    std::vector<bool> used_;
    std::vector<Token> in_alphabet_;
};

}  // namespace

std::shared_ptr<const Bpe> parse_bpe(std::string text, std::string_view source) {
    auto bpe = std::make_shared<Bpe>();
    bpe->source = source;
    bpe->file_text = std::move(text);
    bpe->file_hash = hash64(bpe->file_text);
    Reader(*bpe, Json::parse(bpe->file_text, source)).run();
    return bpe;
}

std::shared_ptr<const Bpe> read_bpe(const std::filesystem::path& path) {
    return parse_bpe(read_text_file(path), path.string());
}

}  // namespace cleave

#include "train/bpe_pre_tokenizer.h"

#include <algorithm>

#include "base/error.h"

namespace cleave {
namespace {

// What ByteLevel cuts by where use_regex says so: the pattern of GPT-2.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Those of Llama 3 and Qwen 2, which differ in how many digits make a word.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits = R"(\p{N}+)";

bool cuts_at_lines(const WordStage& stage) {
    if (!stage.pattern || stage.add_prefix_space) return false;
    const std::string_view text = stage.pattern->text();
    return text == kGpt2Pattern || text == kLlama3Pattern || text == kQwen2Pattern || text == kDigit || text == kDigits;
}

class StageReader {
  public:
    explicit StageReader(std::string_view source) : source_(source) {}

    PreTokenizer run(const Json& json) {
        if (type_of(json) == "Sequence") {
            const Json* list = json.find("pretokenizers");
            if (list == nullptr || list->items() == nullptr) fail("found a Sequence without pretokenizers");
            for (const Json& item : *list->items()) add(item);
        } else {
            add(json);
        }
        if (!byte_level_) fail("found no ByteLevel; accepted: ByteLevel, alone or at the end of a Sequence");
        // Digits alone would leave the lines whole.
        const bool lines = !stages_.empty() && std::all_of(stages_.begin(), stages_.end(), cuts_at_lines) &&
                           stages_.back().pattern->text().size() > kDigits.size();
        return {std::move(stages_), lines};
    }

  private:
    [[noreturn]] void fail(const std::string& what) const { throw UserError("{}: pre_tokenizer: {}", source_, what); }

    std::string type_of(const Json& json) const {
        const Json* type = json.find("type");
        if (type == nullptr || type->string() == nullptr) fail("it has no type");
        return *type->string();
    }
    bool truth(const Json& json, std::string_view name, bool otherwise) const {
        const Json* value = json.find(name);
        if (value == nullptr) return otherwise;
        if (value->boolean() == nullptr)
            fail(fmt::format("{}: found {}; accepted: true or false", name, value->dump()));
        return *value->boolean();
    }

    void add(const Json& json) {
        if (byte_level_) fail("found a stage behind ByteLevel; accepted: ByteLevel at the end");
        const std::string type = type_of(json);
        if (type == "ByteLevel")
            add_byte_level(json);
        else if (type == "Split")
            add_split(json);
        else if (type == "Digits")
            add_pattern(truth(json, "individual_digits", false) ? kDigit : kDigits);
        else
            fail(fmt::format("found {}; accepted: ByteLevel, Split, Digits and a Sequence of them", Json(type).dump()));
    }

    void add_pattern(std::string_view pattern) { stages_.push_back({Pattern(pattern, source_), false}); }

    void add_byte_level(const Json& json) {
        byte_level_ = true;
        WordStage stage;
        stage.add_prefix_space = truth(json, "add_prefix_space", true);
        if (truth(json, "use_regex", true)) stage.pattern.emplace(kGpt2Pattern, source_);
        if (stage.add_prefix_space || stage.pattern) stages_.push_back(std::move(stage));
    }

    void add_split(const Json& json) {
        const Json* pattern = json.find("pattern");
        const Json* regex = pattern == nullptr ? nullptr : pattern->find("Regex");
        if (regex == nullptr || regex->string() == nullptr)
            fail("Split: found no Regex; accepted: {\"Regex\": \"...\"}");
        const Json* behavior = json.find("behavior");
        if (behavior == nullptr || *behavior != Json("Isolated"))
            fail(fmt::format("Split.behavior: found {}; accepted: \"Isolated\"",
                             behavior == nullptr ? "none" : behavior->dump()));
        if (truth(json, "invert", false)) fail("Split.invert: found true; accepted: false");
        add_pattern(*regex->string());
    }

    std::string_view source_;
    std::vector<WordStage> stages_;
    bool byte_level_ = false;
};

}  // namespace

PreTokenizer read_pre_tokenizer(const Json* json, std::string_view source) {
    if (json == nullptr || json->is_null())
        throw UserError("{}: pre_tokenizer: found none; accepted: ByteLevel, alone or at the end of a Sequence",
                        source);
    return StageReader(source).run(*json);
}

}  // namespace cleave

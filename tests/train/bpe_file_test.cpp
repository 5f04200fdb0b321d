// What a tokenizer.json may ask for, and what is refused by name.
#include <gmock/gmock.h>

#include "base/json.h"
#include "base/utf8.h"
#include "support/scratch.h"
#include "train/bpe_encoder.h"
#include "train/tokenizer.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Bytes 0 to 255 as tokens 0 to 255, " a" 256, "ab" 257, " ab" 258, "<end>" 259, with GPT-2's pre-tokenizer.
Json whole() {
    Json vocabulary = Json::object();
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b) {
        const bool printable = (b > 32 && b < 127) || (b > 160 && b != 173);
        vocabulary.append(to_utf8(printable ? b : next++), static_cast<int>(b));
    }
    vocabulary.append(
        "\xC4\xA0"
        "a",
        256);
    vocabulary.append("ab", 257);
    vocabulary.append(
        "\xC4\xA0"
        "ab",
        258);
    Json model{{"type", "BPE"}, {"vocab", vocabulary}};
    model.set("merges", Json::array()
                            .push("\xC4\xA0 a")
                            .push("a b")
                            .push(Json::array()
                                      .push("\xC4\xA0"
                                            "a")
                                      .push("b")));
    Json added{{"id", 259}, {"content", "<end>"}, {"normalized", false}, {"special", true}, {"lstrip", false}};
    return Json{{"added_tokens", Json::array().push(added)},
                {"normalizer", Json()},
                {"pre_tokenizer", Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
                {"decoder", Json{{"type", "ByteLevel"}}},
                {"model", model}};
}

Json with(std::string_view member, Json value) {
    Json json = whole();
    json.set(member, std::move(value));
    return json;
}
Json with_model(std::string_view member, Json value) {
    Json json = whole();
    Json model = *json.find("model");
    model.set(member, std::move(value));
    return json.set("model", model);
}
std::vector<Token> encoded(const Json& json, std::string_view text) {
    return Tokenizer::bpe(parse_bpe(json.dump(), "t.json")).encode(text, "text");
}
std::string refusal(const Json& json) {
    return user_error([&] { parse_bpe(json.dump(), "t.json"); });
}

TEST(BpeFile, MergesInTheirOrderInBothForms) {
    EXPECT_THAT(encoded(whole(), "ab ab a"), ElementsAre(257, 258, 256));
    EXPECT_THAT(encoded(whole(), "xab"), ElementsAre('x', 257));
    EXPECT_EQ(parse_bpe(whole().dump(), "t.json")->vocabulary(), 260);
}

TEST(BpeFile, TheFirstMergeOfTheListWinsAndOfEqualsTheLeftmost) {
    // "a b" before " a": " ab" becomes " " and "ab".
    const Json other = with_model("merges", Json::array().push("a b").push("\xC4\xA0 a"));
    EXPECT_THAT(encoded(other, " ab"), ElementsAre(' ', 257));
    const Json doubled = with_model("merges", Json::array().push("a b"));
    EXPECT_THAT(encoded(doubled, "ababa"), ElementsAre(257, 257, 'a'));
}

TEST(BpeFile, AddedTokensAreFoundFirst) {
    EXPECT_THAT(encoded(whole(), "a<end>b<end"), ElementsAre('a', 259, 'b', '<', 'e', 'n', 'd'));
    const auto tokenizer = Tokenizer::bpe(parse_bpe(whole().dump(), "t.json"));
    EXPECT_EQ(tokenizer.added_token("<end>"), 259);
    EXPECT_EQ(tokenizer.added_token("<start>"), std::nullopt);
    EXPECT_EQ(tokenizer.decode(std::vector<Token>{'a', 259, 258}), "a<end> ab");
}

TEST(BpeFile, AWordThatIsATokenIsTakenWholeWhereMergesAreIgnored) {
    Json json = with_model("merges", Json::array());
    EXPECT_THAT(encoded(json, "ab"), ElementsAre('a', 'b'));
    Json model = *json.find("model");
    json.set("model", model.set("ignore_merges", true));
    EXPECT_THAT(encoded(json, "ab"), ElementsAre(257));
}

TEST(BpeFile, AByteWithoutATokenIsAnErrorWhereATextHasIt) {
    const Json few{{"a", 0}, {"b", 1}, {"ab", 2}};
    Json model{{"type", "BPE"}, {"vocab", few}, {"merges", Json::array().push("a b")}};
    Json json = with("model", model);
    json.set("added_tokens", Json::array());
    EXPECT_THAT(encoded(json, "aab"), ElementsAre(0, 2));
    EXPECT_THAT(user_error([&] { encoded(json, "abc"); }), AllOf(HasSubstr("t.json"), HasSubstr("byte 0x63")));
}

TEST(BpeFile, TokensBeyondTheVocabularyAndNumbersWithoutATokenDecode) {
    const auto tokenizer = Tokenizer::bpe(parse_bpe(whole().dump(), "t.json"));
    EXPECT_EQ(tokenizer.decode(std::vector<Token>{'a', 5000}), "a\xEF\xBF\xBD");
}

TEST(BpeFile, RefusesByNameWhatItWouldNotEncodeAlike) {
    const auto type = [](const char* name) { return Json{{"type", name}}; };
    EXPECT_THAT(refusal(with_model("type", "Unigram")), AllOf(HasSubstr("model.type"), HasSubstr("Unigram")));
    EXPECT_THAT(refusal(with_model("byte_fallback", true)), HasSubstr("model.byte_fallback: found true"));
    EXPECT_THAT(refusal(with_model("dropout", 0.1)), HasSubstr("model.dropout: found 0.1"));
    EXPECT_THAT(refusal(with_model("end_of_word_suffix", "</w>")), HasSubstr("end_of_word_suffix: found \"</w>\""));
    EXPECT_THAT(refusal(with_model("continuing_subword_prefix", "##")), HasSubstr("continuing_subword_prefix"));
    EXPECT_THAT(refusal(with("normalizer", type("NFKC"))), AllOf(HasSubstr("normalizer"), HasSubstr("NFKC")));
    EXPECT_THAT(refusal(with("decoder", type("Metaspace"))), AllOf(HasSubstr("decoder"), HasSubstr("Metaspace")));
    EXPECT_THAT(refusal(with("pre_tokenizer", Json())), HasSubstr("pre_tokenizer: found none"));
    EXPECT_THAT(refusal(with("pre_tokenizer", type("Whitespace"))), HasSubstr("found \"Whitespace\""));
    EXPECT_EQ(refusal(with("post_processor", type("TemplateProcessing"))), "");  // adds tokens to single inputs only
}

TEST(BpeFile, RefusesStagesThatItDoesNotKnow) {
    const Json byte_level = *whole().find("pre_tokenizer");
    const auto sequence = [&](const Json& first, const Json& second) {
        return with("pre_tokenizer",
                    Json{{"type", "Sequence"}, {"pretokenizers", Json::array().push(first).push(second)}});
    };
    const auto split = [](const char* behavior, bool invert, const char* kind) {
        return Json{{"type", "Split"}, {"pattern", Json{{kind, " ?a+|b"}}}, {"behavior", behavior}, {"invert", invert}};
    };
    EXPECT_EQ(refusal(sequence(split("Isolated", false, "Regex"), byte_level)), "");
    EXPECT_THAT(refusal(sequence(split("Removed", false, "Regex"), byte_level)), HasSubstr("found \"Removed\""));
    EXPECT_THAT(refusal(sequence(split("Isolated", true, "Regex"), byte_level)), HasSubstr("invert: found true"));
    EXPECT_THAT(refusal(sequence(split("Isolated", false, "String"), byte_level)), HasSubstr("found no Regex"));
    EXPECT_THAT(refusal(sequence(byte_level, split("Isolated", false, "Regex"))), HasSubstr("behind ByteLevel"));
    EXPECT_THAT(refusal(sequence(split("Isolated", false, "Regex"), split("Isolated", false, "Regex"))),
                HasSubstr("found no ByteLevel"));
}

TEST(BpeFile, RefusesAddedTokensThatItDoesNotKnow) {
    const auto added = [](std::string_view member, Json value) {
        Json token = whole().find("added_tokens")->items()->front();
        return with("added_tokens", Json::array().push(token.set(member, std::move(value))));
    };
    EXPECT_THAT(refusal(added("lstrip", true)), AllOf(HasSubstr("<end>"), HasSubstr("lstrip: found true")));
    EXPECT_THAT(refusal(added("rstrip", true)), HasSubstr("rstrip: found true"));
    EXPECT_THAT(refusal(added("single_word", true)), HasSubstr("single_word: found true"));
    EXPECT_THAT(refusal(added("normalized", Json())), HasSubstr("normalized"));
    EXPECT_THAT(refusal(added("id", 300)), AllOf(HasSubstr("id is 300"), HasSubstr("give it 259")));
    EXPECT_THAT(refusal(added("content", "ab")), HasSubstr("give it 257"));  // the vocabulary has it
    EXPECT_THAT(refusal(added("content", "")), HasSubstr("no content"));
    EXPECT_EQ(refusal(added("normalized", true)), "");
}

TEST(BpeFile, RefusesDamage) {
    EXPECT_THAT(user_error([] { parse_bpe("{", "t.json"); }), HasSubstr("t.json: not valid JSON"));
    EXPECT_THAT(user_error([] { parse_bpe("[]", "t.json"); }), HasSubstr("no object"));
    EXPECT_THAT(user_error([] { parse_bpe("{}", "t.json"); }), HasSubstr("no model"));
    EXPECT_THAT(refusal(with_model("vocab", Json::object())), HasSubstr("no tokens"));
    EXPECT_THAT(refusal(with_model("vocab", Json{{"a", -1}})), HasSubstr("is -1"));
    EXPECT_THAT(refusal(with_model("vocab", Json{{"a", "b"}})), HasSubstr("is \"b\""));
    EXPECT_THAT(refusal(with_model("vocab", Json{{"a", 1}, {"b", 1}})), HasSubstr("stands for two"));
    EXPECT_THAT(refusal(with_model("vocab", Json{{"a", 16777215}})), HasSubstr("far above"));
    EXPECT_THAT(refusal(with_model("merges", Json::array().push("a"))), HasSubstr("entry 0"));
    EXPECT_THAT(refusal(with_model("merges", Json::array().push("a b c"))), HasSubstr("entry 0"));
    EXPECT_THAT(refusal(with_model("merges", Json::array().push(Json::array().push("a")))), HasSubstr("entry 0"));
    EXPECT_THAT(refusal(with_model("merges", Json::array().push("a c"))), HasSubstr("\"ac\", which model.vocab lacks"));
}

TEST(BpeFile, StreamsWholeCharactersOfTokensThatCutThem) {
    const auto tokenizer = Tokenizer::bpe(parse_bpe(whole().dump(), "t.json"));
    StreamingDecoder decoder(tokenizer);
    EXPECT_EQ(decoder.add(0xE4), "");
    EXPECT_EQ(decoder.add(0xB8), "");
    EXPECT_EQ(decoder.add(0xAD), "\xE4\xB8\xAD");
    EXPECT_EQ(decoder.add(258), " ab");
}

TEST(BpeFile, ACheckpointNamesTheTokenizerByItsHash) {
    ScratchFolder folder;
    std::filesystem::create_directory(folder / "checkpoints");
    const std::string source = (folder / "checkpoints/step.ckpt").string();
    const auto tokenizer = Tokenizer::bpe(parse_bpe(whole().dump(), "t.json"));
    EXPECT_THAT(user_error([&] { Tokenizer::from_json(tokenizer.to_json(), source); }), HasSubstr("missing"));
    write_all(folder / "tokenizer.json", std::string(tokenizer.file_text()));
    EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json(), source), tokenizer);
    write_all(folder / "tokenizer.json", with("version", "2").dump());
    EXPECT_THAT(user_error([&] { Tokenizer::from_json(tokenizer.to_json(), source); }), HasSubstr("another tokenizer"));
}

}  // namespace
}  // namespace cleave

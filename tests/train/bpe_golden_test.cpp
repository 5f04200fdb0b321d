// The ids of the Hugging Face library, written by tests/golden/make_tokenizers.py, are the judge.
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "support/scratch.h"
#include "train/bpe_encoder.h"
#include "train/tokenizer.h"

namespace cleave {
namespace {

std::filesystem::path golden(const std::string& name) {
    return std::filesystem::path(CLEAVE_GOLDEN) / "tokenizers" / name;
}

std::string bytes_of_hex(const std::string& hex) {
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

std::vector<Token> ids_of(const Json& list) {
    std::vector<Token> ids;
    for (const Json& id : *list.items()) ids.push_back(static_cast<Token>(*id.integer()));
    return ids;
}

class BpeGoldenTest : public testing::TestWithParam<const char*> {
  protected:
    Tokenizer tokenizer() const { return Tokenizer::bpe(read_bpe(golden(GetParam() + std::string(".json")))); }
};

TEST_P(BpeGoldenTest, GivesTheIdsOfTheHuggingFaceLibrary) {
    const Json cases = Json::parse(read_text_file(golden("cases.json")), "cases.json");
    ASSERT_GT(cases.items()->size(), 90U);
    const Tokenizer tokens = tokenizer();
    for (const Json& each : *cases.items())
        EXPECT_EQ(tokens.encode(bytes_of_hex(*each.find("hex")->string()), "text"), ids_of(*each.find(GetParam())))
            << each.find("name")->dump();
}

TEST_P(BpeGoldenTest, OneEncoderForAllTextsGivesTheSameIds) {
    const Json cases = Json::parse(read_text_file(golden("cases.json")), "cases.json");
    const auto bpe = read_bpe(golden(GetParam() + std::string(".json")));
    BpeEncoder encoder(*bpe);
    std::vector<Token> all;
    std::vector<Token> expected;
    for (const Json& each : *cases.items()) {
        encoder.encode(bytes_of_hex(*each.find("hex")->string()), all);
        const auto ids = ids_of(*each.find(GetParam()));
        expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(all, expected);
}

// The others add spaces (smollm2) and normalize (qwen2).
class BpeRoundTripTest : public BpeGoldenTest {};

TEST_P(BpeRoundTripTest, DecodingGivesTheBytesBack) {
    const Json cases = Json::parse(read_text_file(golden("cases.json")), "cases.json");
    const Tokenizer tokens = tokenizer();
    for (const Json& each : *cases.items()) {
        const std::string text = bytes_of_hex(*each.find("hex")->string());
        EXPECT_EQ(tokens.decode(tokens.encode(text, "text")), text) << each.find("name")->dump();
    }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, BpeRoundTripTest, testing::Values("gpt2", "llama3"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Tokenizers, BpeGoldenTest, testing::Values("gpt2", "llama3", "qwen2", "smollm2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BpeGolden, EveryCharacterIsCutAsThere) {
    const Json every = Json::parse(read_text_file(golden("every_character.json")), "every_character.json");
    for (const auto& [kind, digests] : *every.members()) {
        WordSplitter splitter(read_bpe(golden(kind + ".json"))->stages);
        EXPECT_GT(digests.members()->size(), 40U);
        for (const auto& [first, expected] : *digests.members()) {
            const auto begin = static_cast<char32_t>(std::stoul(first, nullptr, 16));
            std::string text;
            for (char32_t c = begin; c < begin + 4096; ++c)
                if (c < 0xD800 || c >= 0xE000) text += fmt::format("a{0} {0}1'{0}\n{0}", to_utf8(c));
            std::uint64_t digest = 0;
            splitter.for_each_word(text, [&](std::string_view word) { digest = digest * 31 + word.size() + 1; });
            EXPECT_EQ(fmt::format("{:016x}", digest), *expected.string()) << kind << " from U+" << first;
        }
    }
}

}  // namespace
}  // namespace cleave

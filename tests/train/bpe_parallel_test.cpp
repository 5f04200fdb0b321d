// Several threads and one give the same tokens, wherever the text may be cut.
#include "train/bpe_parallel.h"

#include <gmock/gmock.h>

#include <atomic>

#include "base/random.h"
#include "support/scratch.h"
#include "train/bpe_encoder.h"

namespace cleave {
namespace {

std::shared_ptr<const Bpe> golden_bpe(const std::string& name) {
    return read_bpe(std::filesystem::path(CLEAVE_GOLDEN) / "tokenizers" / (name + ".json"));
}

std::vector<Token> serial(const Bpe& bpe, std::string_view text) {
    std::vector<Token> tokens;
    BpeEncoder(bpe).encode(text, tokens);
    return tokens;
}

// Line breaks among everything that could reach over one.
std::string random_text(std::uint64_t seed, std::size_t pieces) {
    const std::vector<std::string> alphabet = {"\n",
                                               "\n",
                                               "\n",
                                               "\r\n",
                                               "a",
                                               "The",
                                               "s",
                                               " ",
                                               "  ",
                                               "\t",
                                               ".",
                                               "'",
                                               "'s",
                                               "-",
                                               "1",
                                               "12",
                                               "\xC3\xA9",
                                               "\xCC\x81",
                                               "\xE4\xB8\xAD",
                                               "\xF0\x9F\x98\x80",
                                               "\xFF",
                                               "\xE4",
                                               "<|endoftext|>",
                                               "<|im_end|>",
                                               "\xC2\xA0",
                                               "\xE2\x80\xA8",
                                               "x\nB",
                                               "}\nend"};
    const RandomStream random(seed, "text");
    std::string text;
    for (std::size_t i = 0; i < pieces; ++i) text += alphabet[random.below(i, alphabet.size())];
    return text;
}

TEST(BpeParallel, EveryCutGivesTheTokensOfTheWholeText) {
    for (const char* name : {"gpt2", "llama3", "qwen2"}) {
        const auto bpe = golden_bpe(name);
        EXPECT_TRUE(bpe->cuts_at_lines) << name;
        for (std::uint64_t seed = 0; seed < 200; ++seed) {
            const std::string text = random_text(seed, 300);
            for (const std::size_t chunk : {std::size_t{1}, std::size_t{40}})
                ASSERT_EQ(encode_bpe(*bpe, text, {2, chunk, {}}), serial(*bpe, text)) << name << " " << seed;
        }
    }
}

TEST(BpeParallel, APrefixOrAnotherPatternIsNotCut) {
    const auto smollm2 = golden_bpe("smollm2");
    EXPECT_FALSE(smollm2->cuts_at_lines);
    const std::string text = random_text(1, 300);
    EXPECT_EQ(encode_bpe(*smollm2, text, {2, 1, {}}), serial(*smollm2, text));
}

TEST(BpeParallel, ProgressEndsWithTheWholeText) {
    const auto bpe = golden_bpe("gpt2");
    const std::string text = random_text(2, 3000);
    std::size_t last = 0;
    int calls = 0;
    encode_bpe(*bpe, text, {2, 100, [&](std::size_t done) {
                                EXPECT_GT(done, last);
                                last = done;
                                ++calls;
                            }});
    EXPECT_EQ(last, text.size());
    EXPECT_GT(calls, 10);
}

TEST(BpeParallel, AnErrorOfOneThreadIsTheError) {
    Bpe bpe = *golden_bpe("gpt2");
    bpe.of_byte['x'] = -1;
    EXPECT_THAT(user_error([&] { encode_bpe(bpe, random_text(3, 3000), {2, 10, {}}); }), testing::HasSubstr("0x78"));
}

}  // namespace
}  // namespace cleave

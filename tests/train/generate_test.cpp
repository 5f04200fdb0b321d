// Text that depends on (seed, position) alone, and how it ends.
#include "train/generate.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "support/scratch.h"
#include "train/dataset.h"
#include "train/next_logits.h"

namespace cleave {
namespace {

constexpr std::int64_t kContext = 6;
constexpr std::int64_t kVocabulary = 19;

GenerationSettings generation_settings(double temperature, std::int64_t tokens, std::uint64_t seed = 1,
                                       bool cache = true) {
    GenerationSettings settings;
    settings.sample.temperature = temperature;
    settings.sample.tokens = tokens;
    settings.vocabulary = kVocabulary;
    settings.seed = seed;
    settings.cache = cache;
    return settings;
}

// Calls body(engine, model) on every rank.
void with_model(int ranks, Family family, DType dtype, const std::function<void(CpuEngine&, Transformer&)>& body) {
    ModelConfig config;
    config.family = family;
    config.layers = 2;
    config.heads = 2;
    config.width = 16;
    config.context = kContext;
    config.vocabulary = kVocabulary;
    config.initial_deviation = 0.5;
    const Mesh mesh({{"pp", 1}, {"dp", ranks}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, config, data_parallel_layouts(mesh), dtype);
        model.initialize(2);
        body(engine, model);
    });
}

const std::vector<Token> kPrompt{3, 1, 4};

// Texts of every rank, in the order of ranks.
std::vector<std::vector<Token>> texts(int ranks, const GenerationSettings& how, DType dtype,
                                      Family family = Family::gpt2) {
    std::vector<std::vector<Token>> all(static_cast<std::size_t>(ranks));
    with_model(ranks, family, dtype, [&](CpuEngine& engine, Transformer& model) {
        std::vector<Token> announced;
        const Generated result = generate(engine, model, kPrompt, how, [&](Token token) {
            announced.push_back(token);
            return true;
        });
        EXPECT_EQ(announced, result.tokens);
        EXPECT_EQ(result.ending, Ending::length);
        EXPECT_EQ(result.decode_passes, how.sample.tokens - 1);
        all[static_cast<std::size_t>(engine.rank())] = result.tokens;
    });
    return all;
}

// Each token is the largest of the logits after the window before it, computed here from scratch.
TEST(Generate, GreedyTextFollowsTheModelBeyondItsPositions) {
    for (const Family family : {Family::gpt2, Family::llama})
        with_model(1, family, DType::f64, [&](CpuEngine& engine, Transformer& model) {
            const auto own = generate(engine, model, kPrompt, generation_settings(0, 20)).tokens;
            ASSERT_EQ(own.size(), 20U);
            std::vector<Token> text = kPrompt;
            // When six are seen and the next one comes, the oldest three go.
            const std::size_t begins[] = {0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9, 12, 12, 12, 15, 15, 15, 18};
            for (std::size_t i = 0; i < own.size(); ++i) {
                const std::vector<Token> window(text.begin() + static_cast<std::ptrdiff_t>(begins[i]), text.end());
                ASSERT_LE(window.size(), 6U);
                const auto size = static_cast<std::int64_t>(window.size());
                const Tensor tokens =
                    engine.alloc("tokens", {1, size}, model.layouts().tokens, DType::i32, MemoryKind::activations);
                engine.write(tokens, std::as_bytes(std::span(window)));
                Tape tape(engine, false);
                const Tensor logits = model.logits(tape, tokens);
                const double* row = logits.view().as<double>() + (size - 1) * kVocabulary;
                EXPECT_EQ(own[i], std::max_element(row, row + kVocabulary) - row) << i;
                text.push_back(own[i]);
            }
        });
}

TEST(Generate, WithTheCacheTheTextIsTheSame) {
    for (const Family family : {Family::gpt2, Family::llama})
        for (const double temperature : {0.0, 0.9})
            EXPECT_EQ(texts(1, generation_settings(temperature, 40, 5, true), DType::f64, family),
                      texts(1, generation_settings(temperature, 40, 5, false), DType::f64, family));
}

TEST(Generate, EveryRankWritesTheSameTextWhateverTheNumberOfRanks) {
    const auto alone = texts(1, generation_settings(0.9, 15, 7), DType::f32).front();
    for (const auto& text : texts(3, generation_settings(0.9, 15, 7), DType::f32)) EXPECT_EQ(text, alone);
    EXPECT_NE(texts(1, generation_settings(0.9, 15, 8), DType::f32).front(), alone);
    const auto more = texts(1, generation_settings(0.9, 17, 7), DType::f32).front();
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), more.begin())) << "asking for more changed the beginning";
}

TEST(Generate, AnEndTokenEndsTheTextAndIsNoPartOfIt) {
    const auto whole = texts(1, generation_settings(0.9, 15, 7), DType::f32).front();
    // The token that first occurs last.
    std::size_t at = 0;
    for (std::size_t i = 1; i < whole.size(); ++i)
        if (std::find(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i), whole[i]) ==
            whole.begin() + static_cast<std::ptrdiff_t>(i))
            at = i;
    ASSERT_GT(at, 1U);
    with_model(1, Family::gpt2, DType::f32, [&](CpuEngine& engine, Transformer& model) {
        GenerationSettings how = generation_settings(0.9, 15, 7);
        how.end_tokens = {whole[at]};
        const Generated ended = generate(engine, model, kPrompt, how);
        EXPECT_EQ(ended.ending, Ending::end_token);
        EXPECT_EQ(ended.tokens, std::vector<Token>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)));
        EXPECT_EQ(ended.decode_passes, static_cast<std::int64_t>(at));

        int seen = 0;
        const Generated stopped =
            generate(engine, model, kPrompt, generation_settings(0.9, 15, 7), [&](Token) { return ++seen < 4; });
        EXPECT_EQ(stopped.ending, Ending::caller);
        EXPECT_EQ(stopped.tokens, std::vector<Token>(whole.begin(), whole.begin() + 4));
    });
}

TEST(Generate, OnlyTokensOfTheTokenizerAreDrawn) {
    GenerationSettings how = generation_settings(5.0, 200);
    how.vocabulary = 4;
    const auto text = texts(1, how, DType::f32).front();
    EXPECT_LT(*std::max_element(text.begin(), text.end()), 4);
}

TEST(PromptTokens, AnEmptyOneBeginsALineAndAStrangerIsNamed) {
    Job::Data data;
    const Dataset characters = Dataset::from_text("\nabc", data);
    EXPECT_EQ(prompt_tokens(characters.tokenizer(), "cab", "p").size(), 3U);
    EXPECT_EQ(characters.tokenizer().decode(prompt_tokens(characters.tokenizer(), "", "p")), "\n");
    EXPECT_THAT(user_error([&] { prompt_tokens(characters.tokenizer(), "abz", "sample.prompt"); }),
                testing::AllOf(testing::HasSubstr("sample.prompt"), testing::HasSubstr("U+007A")));
    data.tokenizer = TokenizerKind::bytes;
    const Dataset bytes = Dataset::from_text("abc", data);
    EXPECT_EQ(prompt_tokens(bytes.tokenizer(), "", "p"), (std::vector<Token>{'\n'}));
}

}  // namespace
}  // namespace cleave

// Sampling: the distribution of a draw, and text that depends on (seed, position) alone.
#include "train/generate.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "support/scratch.h"
#include "train/dataset.h"

namespace cleave {
namespace {

const std::vector<double> kLogits{0.5, -1.0, 2.0, 2.0, -30.0};

TEST(Sample, TemperatureZeroTakesTheLargestOfEqualsTheFirst) {
    for (double uniform : {0.0, 0.5, 0.999}) EXPECT_EQ(sample(kLogits, 0, 0, uniform), 2);
}

TEST(Sample, DrawsFromSoftmaxOverTheTopK) {
    for (double temperature : {1.0, 0.5, 3.0})
        for (std::int64_t top_k : {0, 2, 3, 5, 9}) {
            std::vector<double> expected;
            double total = 0;
            for (std::size_t v = 0; v < kLogits.size(); ++v) {
                // The top 2 are 2 and 3, the top 3 have 0 as well.
                const bool kept = top_k == 0 || top_k >= 5 || v == 2 || v == 3 || (top_k == 3 && v == 0);
                expected.push_back(kept ? std::exp(kLogits[v] / temperature) : 0);
                total += expected.back();
            }
            // Evenly spaced numbers in [0, 1): shares are exact up to one in their count.
            constexpr int kDraws = 10000;
            std::vector<int> count(kLogits.size());
            for (int i = 0; i < kDraws; ++i)
                ++count[static_cast<std::size_t>(sample(kLogits, temperature, top_k, (i + 0.5) / kDraws))];
            for (std::size_t v = 0; v < kLogits.size(); ++v)
                EXPECT_NEAR(count[v], kDraws * expected[v] / total, 1.01) << v << " of the top " << top_k;
        }
}

Job::Sample settings(double temperature, std::int64_t tokens) {
    Job::Sample settings;
    settings.temperature = temperature;
    settings.tokens = tokens;
    return settings;
}

// Texts of every rank, in the order of ranks.
std::vector<std::vector<Token>> texts(int ranks, const Job::Sample& how, std::uint64_t seed, DType dtype) {
    ModelConfig config;
    config.layers = 1;
    config.heads = 2;
    config.width = 16;
    config.context = 6;
    config.vocabulary = 19;
    config.initial_deviation = 0.5;
    const Mesh mesh({{"pp", 1}, {"dp", ranks}, {"cp", 1}, {"tp", 1}});
    std::vector<std::vector<Token>> all(static_cast<std::size_t>(ranks));
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, config, data_parallel_layouts(mesh), dtype);
        model.initialize(2);
        const std::vector<Token> prompt{3, 1, 4};
        std::vector<Token> announced;
        auto& own = all[static_cast<std::size_t>(world.rank())];
        own = generate(engine, model, prompt, how, config.vocabulary, seed,
                       [&](Token token) { announced.push_back(token); });
        EXPECT_EQ(announced, own);
        // Greedy: each token is the largest of the logits after the window before it, computed here from scratch.
        if (how.temperature > 0 || dtype != DType::f64 || ranks > 1) return;
        std::vector<Token> text = prompt;
        for (Token token : own) {
            std::vector<Token> window(text.end() - std::min<std::ptrdiff_t>(6, std::ssize(text)), text.end());
            const std::size_t last = window.size() - 1;
            window.resize(6, 18);  // another filling than the code's: what stands behind must not matter
            const Tensor tokens =
                engine.alloc("tokens", {1, 6}, model.layouts().tokens, DType::i32, MemoryKind::activations);
            engine.write(tokens, std::as_bytes(std::span(window)));
            Tape tape(engine, false);
            const Tensor logits = model.logits(tape, tokens);
            const double* row = logits.view().as<double>() + last * 19;
            EXPECT_EQ(token, std::max_element(row, row + 19) - row);
            text.push_back(token);
        }
    });
    return all;
}

TEST(Generate, GreedyTextFollowsTheModelBeyondItsContext) {
    const auto all = texts(1, settings(0, 20), 1, DType::f64);
    EXPECT_EQ(all.front().size(), 20U);
}

TEST(Generate, EveryRankWritesTheSameTextWhateverTheNumberOfRanks) {
    const auto alone = texts(1, settings(0.9, 15), 7, DType::f32).front();
    for (const auto& text : texts(3, settings(0.9, 15), 7, DType::f32)) EXPECT_EQ(text, alone);
    EXPECT_NE(texts(1, settings(0.9, 15), 8, DType::f32).front(), alone);
    const auto more = texts(1, settings(0.9, 17), 7, DType::f32).front();
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), more.begin())) << "asking for more changed the beginning";
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

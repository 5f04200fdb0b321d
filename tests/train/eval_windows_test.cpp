// The windows of an evaluation: every token but the first is counted once, from what stands before it in its window.
#include "train/eval_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/functions.h"

namespace cleave {
namespace {

constexpr auto kIgnored = static_cast<Token>(kIgnoredLabel);

// Token i of the text is i + 1, so that a token tells its place and padding is told apart.
std::vector<Token> counting(std::int64_t size) {
    std::vector<Token> tokens;
    for (std::int64_t i = 0; i < size; ++i) tokens.push_back(static_cast<Token>(i + 1));
    return tokens;
}

TEST(EvalWindows, EveryTokenButTheFirstIsCountedOnceWithItsContext) {
    for (std::int64_t size : {2, 3, 7, 8, 9, 16, 17, 30})
        for (std::int64_t context : {1, 2, 7, 8, 20})
            for (std::int64_t stride = 1; stride <= context; ++stride) {
                const auto tokens = counting(size);
                const EvalWindows windows({tokens}, context, stride);
                ASSERT_EQ(windows.labels(), size - 1);
                std::map<Token, std::int64_t> seen_before;  // by counted token
                Samples samples;
                windows.fill({0, windows.count() + 2}, samples);
                ASSERT_EQ(std::ssize(samples.tokens), (windows.count() + 2) * context);
                for (std::size_t i = 0; i < samples.labels.size(); ++i) {
                    if (samples.labels[i] == kIgnored) continue;
                    const auto row = static_cast<std::int64_t>(i) / context,
                               at = static_cast<std::int64_t>(i) % context;
                    EXPECT_EQ(samples.labels[i], samples.tokens[i] + 1);
                    EXPECT_EQ(samples.tokens[i], row * stride + at + 1);
                    EXPECT_TRUE(seen_before.emplace(samples.labels[i], at + 1).second) << "counted twice";
                    if (row > 0) {
                        EXPECT_GE(at + 1, context - stride + 1);
                    }
                }
                EXPECT_EQ(std::ssize(seen_before), size - 1) << size << " " << context << " " << stride;
                // The last window is needed.
                windows.fill({windows.count() - 1, 1}, samples);
                EXPECT_GT(
                    std::count_if(samples.labels.begin(), samples.labels.end(), [](Token t) { return t != kIgnored; }),
                    0);
            }
}

TEST(EvalWindows, ATokenSeesItsOwnDocumentAloneAndTheFirstOfADocumentIsNotCounted) {
    const std::vector<std::int64_t> starts{0, 3, 4, 9, 16};
    const auto document_of = [&](std::int64_t i) { return std::upper_bound(starts.begin(), starts.end(), i); };
    for (std::int64_t size : {17, 20})
        for (std::int64_t context : {1, 4, 7, 30})
            for (std::int64_t stride = 1; stride <= context; ++stride) {
                const auto tokens = counting(size);
                const EvalWindows windows({tokens}, context, stride, starts);
                ASSERT_EQ(windows.labels(), size - std::ssize(starts));
                std::map<Token, int> counted;
                Samples samples;
                windows.fill({0, windows.count()}, samples);
                ASSERT_EQ(samples.first_visible.size(), samples.tokens.size());
                for (std::size_t i = 0; i < samples.labels.size(); ++i) {
                    if (samples.tokens[i] == 0) continue;  // padding
                    const std::int64_t text = samples.tokens[i] - 1, at = static_cast<std::int64_t>(i) % context;
                    const std::int64_t first = text - at + samples.first_visible[i];
                    EXPECT_EQ(document_of(first), document_of(text));
                    EXPECT_TRUE(samples.first_visible[i] == 0 || document_of(first - 1) != document_of(text));
                    if (samples.labels[i] == kIgnored) continue;
                    EXPECT_EQ(document_of(samples.labels[i] - 1), document_of(text));
                    ++counted[samples.labels[i]];
                }
                EXPECT_EQ(std::ssize(counted), windows.labels());
                for (const auto& [token, times] : counted) EXPECT_EQ(times, 1) << token;
            }
}

TEST(EvalWindows, WithoutOverlapTheyAreTheRowsThatTrainingEvaluates) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i * i % 23);
    Job::Data data;
    data.tokenizer = TokenizerKind::bytes;
    const Dataset dataset = Dataset::from_text(text, data);
    const Sampler sampler(dataset, 7, 1);
    const EvalWindows windows(dataset.tokens(Part::validation), 7, 7);
    EXPECT_EQ(windows.count(), sampler.cover_rows(Part::validation));
    EXPECT_EQ(windows.labels(), sampler.cover_labels(Part::validation));
    Samples own, theirs;
    const RowRange rows{0, windows.count() + 1};
    windows.fill(rows, own);
    sampler.cover(Part::validation, rows, theirs);
    EXPECT_EQ(own.tokens, theirs.tokens);
    EXPECT_EQ(own.labels, theirs.labels);
}

}  // namespace
}  // namespace cleave

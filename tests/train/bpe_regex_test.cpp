// Patterns mean what they mean to the Hugging Face library, or are refused. (That they cut alike over every character
// is tested with golden files.)
#include "train/bpe_regex.h"

#include <gmock/gmock.h>

#include "support/scratch.h"
#include "train/bpe_words.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(std::string_view pattern, std::string_view text) {
    WordSplitter splitter({{Pattern(pattern, "t.json"), false}});
    std::vector<std::string> all;
    splitter.for_each_word(text, [&](std::string_view word) { all.emplace_back(word); });
    return all;
}
std::string pattern_refusal(std::string_view pattern) {
    return user_error([&] { Pattern(pattern, "t.json"); });
}

TEST(BpeRegex, MatchesAndWhatIsBetweenThemAreWords) {
    EXPECT_THAT(words("b+", "aabbbcb"), ElementsAre("aa", "bbb", "c", "b"));
    EXPECT_THAT(words("x", "aa"), ElementsAre("aa"));
    EXPECT_THAT(words(R"([^\s\-a-c.]{1,2}|\.)", "dd-de.a"), ElementsAre("dd", "-", "de", ".", "a"));
    EXPECT_THAT(words(R"(\s+(?!\S)|\s+)", "a   b"), ElementsAre("a", "  ", " ", "b"));
    EXPECT_THAT(words(R"((?i:'LL|'d))", "I'Ll he'D"), ElementsAre("I", "'Ll", " he", "'D"));
    EXPECT_THAT(words(R"(\P{L}+)", "a1\xE4\xB8\xAD"), ElementsAre("a", "1", "\xE4\xB8\xAD"));
}

TEST(BpeRegex, WhiteSpaceIsUnicodes) {
    EXPECT_THAT(words(R"(\s)",
                      "a\xC2\x85"
                      "b\xE1\xA0\x8E"
                      "c"),
                ElementsAre("a", "\xC2\x85",
                            "b\xE1\xA0\x8E"
                            "c"));
}

TEST(BpeRegex, RefusesWhatTheTwoEnginesReadDifferently) {
    for (const char* pattern :
         {R"(\w+)",        R"(\bx)",        R"(a.b)",         R"(^a)",         R"(a$)",      R"(\Aa)",
          R"(\h)",         R"(\x41)",       R"(\u0041)",      R"((?<=a)b)",    R"((?<!a)b)", R"((?m:a))",
          R"((?<name>a))", R"((*ACCEPT)a)", R"([[:alpha:]])", R"([a&&b])",     R"([a[b]])",  R"(\p{Han})",
          R"(\p{Mn})",     R"(\pL)",        R"(\p{^L})",      R"([\S])",       R"([\P{L}])", R"((?i:ss))",
          R"((?i:ST))",    "(?i:\xC3\xA9)", R"((?i:[^a]))",   R"((?i:\p{L}))", R"(a{,3})",   R"(a{2}?)",
          R"(a{2}+)",      R"(a**)",        R"(a+++)",        R"((?=a)+)",     R"(a{1000})", R"(a{3,2})"})
        EXPECT_THAT(pattern_refusal(pattern),
                    AllOf(HasSubstr("t.json: cannot use the pattern"), HasSubstr("(at byte ")))
            << pattern;
}

TEST(BpeRegex, RefusesWhatIsNoPattern) {
    for (const char* pattern :
         {"", "(a", "a)", "[a", "[]", "[b-a]", "[a-\\s]", "a|*", "\\", "[a\\", "a{", "\xFF", "[\xFF]", "a}"})
        EXPECT_THAT(pattern_refusal(pattern), HasSubstr("t.json: cannot use the pattern")) << pattern;
    EXPECT_THAT(pattern_refusal("a*"), HasSubstr("matches the empty text"));
    EXPECT_THAT(pattern_refusal(std::string(100, '(') + "a" + std::string(100, ')')), HasSubstr("nested deeper"));
}

TEST(BpeRegex, APatternThatNeedsForeverIsAnErrorNotAHang) {
    const std::string text = std::string(5000, 'a') + "cb";
    EXPECT_THAT(user_error([&] { words("(?:a+)+b", text); }), HasSubstr("cannot be matched at byte 0"));
}

}  // namespace
}  // namespace cleave

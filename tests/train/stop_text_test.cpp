// A text that ends at a word, in every cut into pieces: what is shown is the text before the word, and never more.
#include "train/stop_text.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

// The text in pieces of `size` bytes; what was shown while it came, and in all.
std::string shown(const std::string& text, std::size_t size, const std::vector<std::string>& words, bool& found) {
    StopText stop(words);
    std::string out;
    for (std::size_t at = 0; at < text.size() && !stop.found(); at += size) {
        out += stop.add(std::string_view(text).substr(at, size));
        EXPECT_EQ(text.substr(0, out.size()), out);
    }
    found = stop.found();
    return out + stop.finish();
}

TEST(StopText, EndsBeforeTheFirstWordHoweverTheTextIsCut) {
    struct {
        std::string text;
        std::vector<std::string> words;
    } const cases[] = {{"one two three", {"two"}},       {"aaab", {"aab"}},         {"abcabd", {"abd"}},
                       {"one two three", {"x", "wo t"}}, {"one two three", {"on"}}, {"one two three", {"three", "two"}},
                       {"one two three", {"threes"}},    {"one two", {}},           {"\n\nQ: why", {"\nQ:", "\n\n\n"}}};
    for (const auto& [text, words] : cases) {
        std::size_t expected = std::string::npos;
        for (const std::string& word : words) expected = std::min(expected, text.find(word));
        for (std::size_t size = 1; size <= text.size(); ++size) {
            bool found = false;
            EXPECT_EQ(shown(text, size, words, found), text.substr(0, expected)) << text << " by " << size;
            EXPECT_EQ(found, expected != std::string::npos);
        }
    }
}

TEST(StopText, HoldsBackOnlyWhatMayBecomeAWord) {
    StopText stop({"END"});
    EXPECT_EQ(stop.add("the EN"), "the ");
    EXPECT_EQ(stop.add("Ex E"), "ENEx ");
    EXPECT_EQ(stop.add("ND of it"), "");
    EXPECT_TRUE(stop.found());
    EXPECT_EQ(stop.add("more"), "");
    EXPECT_EQ(stop.finish(), "");
}

}  // namespace
}  // namespace cleave

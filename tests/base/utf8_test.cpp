#include "base/utf8.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Utf8, IsKnownAsAWhole) {
    EXPECT_TRUE(is_utf8(""));
    EXPECT_TRUE(is_utf8("a\xC3\xA9"));
    for (const char* wrong : {"\xFF", "a\xC3", "\xA9", "\xED\xA0\x80"}) EXPECT_FALSE(is_utf8(wrong)) << wrong;
}

TEST(Utf8, EveryCodePointSurvivesARoundTrip) {
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
        if (c == 0xD800) c = 0xE000;  // surrogates are no characters
        const std::string text = to_utf8(c);
        const Utf8Step step = utf8_step(text, 0);
        ASSERT_TRUE(step.valid) << static_cast<std::uint32_t>(c);
        ASSERT_EQ(step.code_point, c);
        ASSERT_EQ(step.length, text.size());
    }
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
    // A lone continuation, overlong forms, a surrogate, above U+10FFFF, cut characters, a lead without continuation.
    for (const char* text :
         {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
          "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC3(", "\xFF"})
        EXPECT_FALSE(utf8_step(text, 0).valid) << text;
}

}  // namespace
}  // namespace cleave

#include "train/tokenizer.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Tokenizer, CharactersAreNumberedInOrderOfCodePoint) {
    const auto tokenizer = Tokenizer::characters("ba\xC3\xA9\n\xE2\x82\xAC a", "text");
    EXPECT_EQ(tokenizer.vocabulary(), 6);  // \n, space, a, b, é, €
    EXPECT_THAT(tokenizer.encode("\n ab\xC3\xA9\xE2\x82\xAC", "text"), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Tokenizer, DecodingGivesTheTextBackByteForByte) {
    const std::string text = "To be, or not to be \xE2\x80\x94 \xF0\x9F\x8E\xAD\n\tend";
    for (const auto& tokenizer : {Tokenizer::characters(text, "text"), Tokenizer::bytes()})
        EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, "text")), text);
    std::string any;
    for (int i = 0; i < 256; ++i) any += static_cast<char>(i);
    EXPECT_EQ(Tokenizer::bytes().decode(Tokenizer::bytes().encode(any, "text")), any);
    EXPECT_EQ(Tokenizer::bytes().vocabulary(), 256);
}

TEST(Tokenizer, BrokenUtf8IsPlacedAndTheRemedyNamed) {
    EXPECT_THAT(
        user_error([] { Tokenizer::characters("one\ntw\xFFo", "my.txt"); }),
        AllOf(HasSubstr("my.txt"), HasSubstr("0xff at line 2, byte 3"), HasSubstr("data.tokenizer = \"bytes\"")));
}

TEST(Tokenizer, AnUnknownCharacterIsNamed) {
    const auto tokenizer = Tokenizer::characters("abc", "text");
    EXPECT_THAT(user_error([&] { tokenizer.encode("ab\xC3\xA9", "--prompt"); }),
                AllOf(HasSubstr("--prompt"), HasSubstr("'\xC3\xA9' (U+00E9)"), HasSubstr("3 characters")));
    EXPECT_THAT(user_error([&] { tokenizer.encode("ab\n", "--prompt"); }), HasSubstr("U+000A"));
}

TEST(Tokenizer, SurvivesJson) {
    const auto tokenizer = Tokenizer::characters("h\xC3\xA9llo \"w\\rld\"\n\x01", "text");
    const Json json = Json::parse(tokenizer.to_json().dump(), "vocabulary");
    EXPECT_EQ(Tokenizer::from_json(json, "vocabulary"), tokenizer);
    EXPECT_EQ(Tokenizer::from_json(Tokenizer::bytes().to_json(), "vocabulary"), Tokenizer::bytes());
}

TEST(Tokenizer, RefusesDamagedJson) {
    for (const char* text :
         {"{}", "[]", R"({"kind": "bpe"})", R"({"kind": "char"})", R"({"kind": "char", "characters": [1]})",
          R"({"kind": "char", "characters": ["ab"]})", R"({"kind": "char", "characters": [""]})",
          R"({"kind": "char", "characters": ["b", "a"]})", R"({"kind": "char", "characters": ["a", "a"]})"})
        EXPECT_THAT(user_error([&] { Tokenizer::from_json(Json::parse(text, "x"), "some.ckpt"); }),
                    HasSubstr("some.ckpt"))
            << text;
}

TEST(StreamingDecoder, HoldsBackHalfCharacters) {
    const auto tokenizer = Tokenizer::bytes();
    StreamingDecoder decoder(tokenizer);
    EXPECT_EQ(decoder.add('a'), "a");
    EXPECT_EQ(decoder.add(0xE2), "");
    EXPECT_EQ(decoder.add(0x82), "");
    EXPECT_EQ(decoder.add(0xAC), "\xE2\x82\xAC");
    EXPECT_EQ(decoder.add(0x80), "\x80");  // never was a character
    EXPECT_EQ(decoder.add(0xF0), "");
    EXPECT_EQ(decoder.finish(), "\xF0");
}

TEST(StreamingDecoder, LosesNothingOfAnyBytes) {
    const auto tokenizer = Tokenizer::bytes();
    StreamingDecoder decoder(tokenizer);
    std::string text;
    std::string out;
    for (unsigned i = 0; i < 5000; ++i) {
        const auto byte = static_cast<unsigned char>((i * 2654435761u) >> 13);
        text += static_cast<char>(byte);
        out += decoder.add(byte);
        ASSERT_LE(text.size() - out.size(), 3u);
    }
    EXPECT_EQ(out + decoder.finish(), text);
}

}  // namespace
}  // namespace cleave

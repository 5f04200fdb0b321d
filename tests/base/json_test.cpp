#include "base/json.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::HasSubstr;

TEST(Json, WritesEveryKindInTheOrderOfMembers) {
    const Json json{{"z", true}, {"a", 1}, {"n", Json()}, {"x", 0.5}, {"s", "a\"b\\c\n\t"}, {"l", Json::array()}};
    EXPECT_EQ(json.dump(), R"({"z": true, "a": 1, "n": null, "x": 0.5, "s": "a\"b\\c\n\u0009", "l": []})");
}

TEST(Json, IndentsForPeople) {
    EXPECT_EQ((Json{{"a", Json::array().push(1).push(2)}}.dump(2)), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
}

TEST(Json, NumbersReadBackTheSameBits) {
    for (double value : {0.1, 1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 3.141592653589793}) {
        const double back = Json::parse(Json(value).dump(), "test").number();
        EXPECT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value));
    }
    const auto least = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(*Json::parse(Json(least).dump(), "test").integer(), least);
}

TEST(Json, WhatJsonLacksIsNull) {
    EXPECT_EQ(Json(std::nan("")).dump(), "null");
    EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, BytesThatAreNotUtf8BecomeReplacementCharacters) {
    EXPECT_EQ(Json("a\xff\xc3").dump(), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    EXPECT_EQ(Json("\xC3\xA9").dump(), "\"\xC3\xA9\"");
}

TEST(Json, DocumentsSurviveARoundTrip) {
    const std::string text = R"({"b": [1, -2, {"c": "é\u0001"}], "a": {"d": false, "e": 1.5e-07}})";
    EXPECT_EQ(Json::parse(text, "test").dump(), text);
}

TEST(Json, RefusesWhatIsNoDocument) {
    for (const char* text : {"", "{", "[1,]", "{\"a\": 1, \"a\": 2}", "nul", "1 2", "\"\xff\"", "18446744073709551615"})
        EXPECT_THAT(user_error([&] { Json::parse(text, "some.json"); }), HasSubstr("some.json: not valid JSON"))
            << text;
}

TEST(Json, RefusesDeepNesting) {
    const std::string deep(100000, '[');
    EXPECT_THAT(user_error([&] { Json::parse(deep, "deep.json"); }), HasSubstr("nested deeper than 64"));
    EXPECT_NO_THROW(Json::parse(std::string(64, '[') + std::string(64, ']'), "fine.json"));
}

}  // namespace
}  // namespace cleave

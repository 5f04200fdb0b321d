// What is too deep for a run file, and that strings and comments are not.
#include "config/toml_nesting.h"

#include <gtest/gtest.h>

#include <string>

namespace cleave {
namespace {

std::string repeated(std::string_view text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}

TEST(TomlNesting, CountsBracketsAndTheDotsOfOneKey) {
    EXPECT_EQ(too_deep_line(""), std::nullopt);
    EXPECT_EQ(too_deep_line("[a.b]\nc.d = 1\n[e]\n"), std::nullopt);
    EXPECT_EQ(too_deep_line(repeated("a.", 16) + "b = 1"), std::nullopt);
    EXPECT_EQ(too_deep_line("\n" + repeated("a.", 17) + "b = 1"), 2U);
    EXPECT_EQ(too_deep_line("\n\n[" + repeated("'a' . ", 17) + "b]"), 3U);
    EXPECT_EQ(too_deep_line("x = " + repeated("[", 16) + repeated("]", 16)), std::nullopt);
    EXPECT_EQ(too_deep_line("x = " + repeated("[\n", 17)), 17U);
    EXPECT_EQ(too_deep_line("x = " + repeated("{a = ", 17)), 1U);
}

TEST(TomlNesting, NumbersOfAListAreNoKey) {
    EXPECT_EQ(too_deep_line("x = [" + repeated("1.5, ", 100) + "]\n" + repeated("y = 1.5\n", 100)), std::nullopt);
}

TEST(TomlNesting, StringsAndCommentsHideTheirs) {
    const std::string deep = repeated("[.", 50);
    for (const std::string& hidden :
         {"x = \"" + deep + "\"", "x = '" + deep + "'", "# " + deep, "x = \"\\\"" + deep + "\"",
          "x = \"\"\"\n\"" + deep + "\"\"\"\"\"", "x = '''\n" + deep + "'''"})
        EXPECT_EQ(too_deep_line(hidden), std::nullopt) << hidden;
    // Nothing hides what comes after them.
    for (const std::string& before : {std::string("x = 'a\\'\n"), std::string("x = \"\"\"a\"\"\"\"\"\n"),
                                      std::string("# \"\n"), std::string("x = '''a''''\n")})
        EXPECT_EQ(too_deep_line(before + deep), 2U) << before;
    EXPECT_EQ(too_deep_line("x = [\"\"\"a\"\"\"\", " + deep), 1U);
    EXPECT_EQ(too_deep_line("x = \"" + deep), std::nullopt) << "no end of a string: no valid TOML";
}

}  // namespace
}  // namespace cleave

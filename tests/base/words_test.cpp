// Words for a person: the nearest one, and lines.
#include <gtest/gtest.h>

#include <array>

#include "base/nearest.h"
#include "base/wrap.h"

namespace cleave {
namespace {

TEST(Nearest, FindsTheWordThatWasMeant) {
    constexpr std::array<std::string_view, 4> kWords = {"steps", "batch", "warmup_steps", "lr"};
    EXPECT_EQ(nearest("stpes", kWords), "steps");
    EXPECT_EQ(nearest("batches", kWords), "batch");
    EXPECT_EQ(nearest("warm_up_steps", kWords), "warmup_steps");
    EXPECT_EQ(nearest("l", kWords), "lr");
}

TEST(Nearest, HasNoAnswerForAnotherWord) {
    constexpr std::array<std::string_view, 2> kWords = {"steps", "lr"};
    EXPECT_EQ(nearest("optimizer", kWords), "");
    EXPECT_EQ(nearest("xyz", kWords), "");
    EXPECT_EQ(nearest("", kWords), "");
}

TEST(Wrapped, BreaksAtSpaces) {
    EXPECT_EQ(wrapped("one two three four", "> ", 11), "one two\n> three\n> four");
    EXPECT_EQ(wrapped("unbreakable", "", 3), "unbreakable");
    EXPECT_EQ(wrapped("", "> ", 10), "");
}

}  // namespace
}  // namespace cleave

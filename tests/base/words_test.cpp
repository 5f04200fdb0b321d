// Words for a person: the nearest one, and lines.
#include <gtest/gtest.h>

#include <array>

#include "base/nearest.h"
#include "base/words.h"
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

TEST(Nearest, TakesUpperAndLowerCaseAsOne) {
    constexpr std::array<std::string_view, 2> kWords = {"model.layers", "bf16"};
    EXPECT_EQ(nearest("MODEL.LAYERS", kWords), "model.layers");
    EXPECT_EQ(nearest("BF16", kWords), "bf16");
    EXPECT_EQ(nearest("MODEL.LAYRS", kWords), "model.layers");
}

TEST(Counted, KnowsOneFromMany) {
    EXPECT_EQ(counted(1, "rank"), "1 rank");
    EXPECT_EQ(counted(0, "rank"), "0 ranks");
    EXPECT_EQ(counted(2, "rank"), "2 ranks");
    EXPECT_EQ(counted(1, "process", "processes"), "1 process");
    EXPECT_EQ(counted(2U, "process", "processes"), "2 processes");
}

TEST(RealText, WhatIsNoNumberHasNoSign) {
    const double nan = std::nan("");
    EXPECT_EQ(real_text(-nan), "nan");
    EXPECT_EQ(real_text(std::copysign(nan, -1.0)), "nan");
    EXPECT_EQ(real_text(-1.5), "-1.5");
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

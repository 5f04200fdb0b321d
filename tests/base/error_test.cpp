#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace cleave {
namespace {

TEST(Error, MessagesAreFormatted) {
    EXPECT_STREQ(UserError("{} is not {}", "a", 3).what(), "a is not 3");
    EXPECT_STREQ(RunError("loss is {}", 1.5).what(), "loss is 1.5");
    EXPECT_STREQ(UserError(std::string("{} stays as it is")).what(), "{} stays as it is");
    const RankFailure failure(3, "rank 3 is gone");
    EXPECT_EQ(failure.rank(), 3);
    EXPECT_STREQ(failure.what(), "rank 3 is gone");
}

TEST(Error, WhatAMessageQuotesNeitherEndsItNorActsOnTheTerminal) {
    const std::string quoted("a\0b\x1b[31m\r\x7f\tc\n", 13);
    const char* const shown = "'a\\x00b\\x1b[31m\\x0d\\x7f\tc\n'";
    EXPECT_STREQ(UserError("'{}'", quoted).what(), shown);
    EXPECT_STREQ(UserError("'" + quoted + "'").what(), shown);
    EXPECT_STREQ(UserError("{}", UserError("'{}'", quoted).what()).what(), shown) << "written out once";
    EXPECT_STREQ(UserError("é \xe2\x80\xa6 \\").what(), "é … \\");
}

TEST(Error, ACheckThatHoldsEvaluatesItsConditionOnce) {
    int calls = 0;
    CLEAVE_CHECK(++calls == 1, "called {} times", calls);
    EXPECT_EQ(calls, 1);
}

TEST(ErrorDeathTest, ABrokenInvariantNamesPlaceConditionAndDetail) {
    const int groups = 3;
    EXPECT_DEATH(CLEAVE_CHECK(groups == 2, "of {} ranks", 8),
                 "error_test.cpp:[0-9]+: broken invariant: groups == 2: of 8 ranks");
    EXPECT_DEATH(CLEAVE_CHECK(groups == 2), "broken invariant: groups == 2\n");
}

}  // namespace
}  // namespace cleave

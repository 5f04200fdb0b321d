// Stored files and initial weights depend on these values: they are those of XXH64's specification.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <span>

namespace cleave {
namespace {

TEST(Hash, PublishedValuesOfXxh64) {
    EXPECT_EQ(hash64(""), 0xef46db3751d8e999U);
    EXPECT_EQ(hash64("a"), 0xd24ec4f1a98c6e5bU);
    EXPECT_EQ(hash64("abc"), 0x44bc2cf5ad770999U);
}

TEST(Hash, BytesAndTextAgreeAndTheSeedMatters) {
    const std::string_view text = "h.0.ln_1.weight";
    EXPECT_EQ(hash64(std::as_bytes(std::span(text)), 5), hash64(text, 5));
    EXPECT_NE(hash64(text, 5), hash64(text, 6));
}

}  // namespace
}  // namespace cleave

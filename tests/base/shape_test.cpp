#include "base/shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace cleave {
namespace {

TEST(Shape, ElementsAndProducts) {
    const Shape shape = {4, 64, 128};
    EXPECT_EQ(shape.rank(), 3);
    EXPECT_EQ(shape[1], 64);
    EXPECT_EQ(shape.back(), 128);
    EXPECT_EQ(shape.elements(), 4 * 64 * 128);
    EXPECT_EQ(shape.product(1, 3), 64 * 128);
    EXPECT_EQ(shape.product(2, 2), 1);
    EXPECT_EQ(Shape().elements(), 1);  // a scalar
    EXPECT_EQ((Shape{5, 0}).elements(), 0);
    EXPECT_EQ((Shape{1 << 20, 1 << 20}).elements(), std::int64_t{1} << 40);
}

TEST(Shape, EqualityComparesExtents) {
    EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
    EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
    EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
    EXPECT_EQ(Shape::filled(3, 1), (Shape{1, 1, 1}));
    EXPECT_EQ(Shape(std::vector<std::int64_t>{2, 3}), (Shape{2, 3}));
}

TEST(Shape, PrintsItsExtents) {
    EXPECT_EQ(to_string(Shape{4, 64, 128}), "[4, 64, 128]");
    EXPECT_EQ(to_string(Shape()), "[]");
}

TEST(ShapeDeathTest, RefusesWhatIsOutside) {
    Shape shape = {2, 3};
    EXPECT_DEATH(static_cast<void>(shape[2]), "dim 2 of a shape of rank 2");
    EXPECT_DEATH(static_cast<void>(shape[-1]), "dim -1 of a shape of rank 2");
    EXPECT_DEATH(Shape::filled(kMaxRank + 1, 1), "broken invariant");
}

}  // namespace
}  // namespace cleave

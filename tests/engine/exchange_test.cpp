// Boxes of global indices and their copies against an element-by-element loop; counts of a transition's collective.
#include "engine/exchange.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/virtual_engine.h"

namespace cleave {
namespace {

TEST(Box, IntersectionAndVolumeEmptyOnesIncluded) {
    const Box a{{0, 4}, {2, 6}};
    EXPECT_EQ(intersection(a, Box{{1, 9}, {0, 3}}), (Box{{1, 4}, {2, 3}}));
    EXPECT_EQ(volume(a), 16);
    EXPECT_EQ(volume(intersection(a, Box{{4, 9}, {2, 6}})), 0);
    EXPECT_EQ(volume(intersection(a, Box{{7, 9}, {0, 1}})), 0);
    EXPECT_EQ(volume(Box{}), 1);  // of a scalar
}

// The element of `piece`, dense and row-major, at a global index.
std::size_t place(const Box& piece, const std::vector<std::int64_t>& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < piece.size(); ++d) offset = offset * piece[d].length() + index[d] - piece[d].begin;
    return static_cast<std::size_t>(offset);
}

Box random_box(const RandomStream& random, std::uint64_t& draw, std::size_t dims) {
    Box box;
    for (std::size_t d = 0; d < dims; ++d) {
        const auto begin = static_cast<std::int64_t>(random.below(draw++, 3));
        box.push_back({begin, begin + 1 + static_cast<std::int64_t>(random.below(draw++, 4))});
    }
    return box;
}

TEST(Box, ACopyMovesTheBoxAndNothingElse) {
    const RandomStream random(1, "boxes");
    std::uint64_t draw = 0;
    int copied = 0;
    for (int round = 0; round < 2000; ++round) {
        const std::size_t dims = 1 + static_cast<std::size_t>(round % 4);
        const Box source = random_box(random, draw, dims);
        const Box target = random_box(random, draw, dims);
        const Box box = intersection(source, target);
        std::vector<std::int32_t> from(static_cast<std::size_t>(volume(source)));
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int32_t>(i + 1);
        std::vector<std::int32_t> to(static_cast<std::size_t>(volume(target)), 0);
        std::vector<std::int32_t> expected = to;
        std::vector<std::int64_t> index(dims);
        for (std::int64_t n = 0; n < volume(box); ++n) {
            std::int64_t rest = n;
            for (std::size_t d = dims; d-- > 0;) {
                index[d] = box[d].begin + rest % box[d].length();
                rest /= box[d].length();
            }
            expected[place(target, index)] = from[place(source, index)];
            ++copied;
        }
        copy_box(from.data(), source, to.data(), target, box, sizeof(std::int32_t));
        ASSERT_EQ(to, expected) << "round " << round;
    }
    EXPECT_GT(copied, 1000);
}

TEST(Exchange, CountsArePiecesOfACutThatIsNotEven) {
    const Mesh mesh({{"dp", 3}});
    for (int rank = 0; rank < 3; ++rank) {
        VirtualEngine engine(mesh, rank, comm::TransportKind::inproc, 1);
        const auto tensor = [&](Placement placement) {
            return engine.alloc("x", {7, 5}, {{0, placement}}, DType::f32, MemoryKind::activations);
        };
        const auto counts = [&](Action action, Placement from, Placement to) {
            Exchange exchange;
            exchange.action = action;
            exchange.axes = {0};
            exchange.from = from;
            exchange.to = to;
            exchange.input = tensor(from);
            exchange.output = tensor(to);
            return spec_of(exchange, mesh, rank).counts;
        };
        // 7 rows: 2, 2, 3. 5 columns: 1, 2, 2.
        EXPECT_EQ(counts(Action::all_reduce, P, R), (std::vector<std::int64_t>{35}));
        EXPECT_EQ(counts(Action::all_gather, S(0), R), (std::vector<std::int64_t>{10, 10, 15}));
        EXPECT_EQ(counts(Action::reduce_scatter, P, S(1)), (std::vector<std::int64_t>{7, 14, 14}));
        EXPECT_EQ(counts(Action::all_to_all, S(0), S(1)), (std::vector<std::int64_t>{2, 4, 4, 2, 4, 4, 3, 6, 6}));
    }
}

}  // namespace
}  // namespace cleave

// Cuts, layouts and the pieces that ranks hold.
#include "placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

namespace cleave {
namespace {

constexpr AxisId kDp = 0, kCp = 1, kTp = 2;

Mesh small_mesh(int dp = 2, int cp = 3, int tp = 2) {
    return Mesh({{"dp", dp}, {"cp", cp}, {"tp", tp}});
}

TEST(Cut, PiecesTileExactly) {
    for (std::int64_t unit : {1, 2, 3, 5})
        for (std::int64_t length = 0; length <= 40; length += unit)
            for (int n = 1; n <= 8; ++n) {
                std::int64_t next = 0;
                for (int r = 0; r < n; ++r) {
                    const Range piece = cut(length, r, n, unit);
                    ASSERT_EQ(piece.begin, next);
                    ASSERT_EQ(piece.begin % unit, 0);
                    const std::int64_t units = piece.length() / unit;
                    ASSERT_GE(units, length / unit / n);
                    ASSERT_LE(units, (length / unit + n - 1) / n);
                    next = piece.end;
                }
                ASSERT_EQ(next, length);
            }
}

TEST(Cut, RoundsDown) {
    EXPECT_EQ(cut(7, 0, 3), (Range{0, 2}));
    EXPECT_EQ(cut(7, 1, 3), (Range{2, 4}));
    EXPECT_EQ(cut(7, 2, 3), (Range{4, 7}));
    EXPECT_EQ(cut(10, 1, 2, 2), (Range{4, 10}));
    EXPECT_DEATH(cut(7, 0, 2, 2), "7 in units of 2");
    EXPECT_DEATH(cut(7, 0, 2, 0), "7 in units of 0");
    EXPECT_DEATH(cut(7, 2, 2), "piece 2 of 2");
}

// Cut by two axes: the outer axis' piece is the inner axis' pieces joined, in order, whichever axis is the outer one.
TEST(Cut, NestedCutsNest) {
    for (int length = 0; length <= 40; ++length)
        for (int dp = 1; dp <= 4; ++dp)
            for (int tp = 1; tp <= 4; ++tp) {
                const Mesh mesh = small_mesh(dp, 1, tp);
                for (bool tp_outside : {true, false}) {
                    const AxisId outer = tp_outside ? kTp : kDp;
                    const AxisId inner = tp_outside ? kDp : kTp;
                    const Layout layout{{outer, S(0)}, {inner, S(0)}};
                    std::int64_t next = 0;
                    for (int o = 0; o < mesh.size(outer); ++o) {
                        for (int i = 0; i < mesh.size(inner); ++i) {
                            const int rank = tp_outside ? i * tp + o : o * tp + i;
                            const Range piece = local_ranges({length}, layout, mesh, rank)[0];
                            ASSERT_EQ(piece.begin, next);
                            next = piece.end;
                        }
                        ASSERT_EQ(next, (o + 1) * length / mesh.size(outer));
                    }
                }
            }
}

TEST(LocalRanges, EveryLayoutTilesTheTensor) {
    const Mesh mesh = small_mesh();
    const Shape shape{5, 7};
    const std::array<Placement, 5> placements{R, I, P, S(0), S(1)};
    std::array<AxisId, 3> order{kDp, kCp, kTp};
    do {
        for (Placement a : placements)
            for (Placement b : placements)
                for (Placement c : placements) {
                    const Layout layout{{order[0], a}, {order[1], b}, {order[2], c}};
                    // How often the ranks of one cell of the uncut axes hold each element: once.
                    std::map<std::vector<int>, std::array<int, 35>> held;
                    for (int rank = 0; rank < mesh.world_size(); ++rank) {
                        std::vector<int> uncut;
                        for (AxisId axis : order)
                            if (!layout.at(axis).is(Placement::Kind::S)) uncut.push_back(mesh.coordinate(rank, axis));
                        auto& count = held.try_emplace(uncut, std::array<int, 35>{}).first->second;
                        const auto ranges = local_ranges(shape, layout, mesh, rank);
                        for (auto i = ranges[0].begin; i < ranges[0].end; ++i)
                            for (auto j = ranges[1].begin; j < ranges[1].end; ++j)
                                ++count[static_cast<std::size_t>(i * 7 + j)];
                        const Shape local = local_shape(shape, layout, mesh, rank);
                        ASSERT_EQ(local, (Shape{ranges[0].length(), ranges[1].length()}));
                    }
                    for (const auto& [cell, count] : held)
                        for (int n : count) ASSERT_EQ(n, 1) << to_string(layout, mesh);
                }
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Placement, Duals) {
    EXPECT_EQ(dual(R), P);
    EXPECT_EQ(dual(P), R);
    EXPECT_EQ(dual(I), I);
    EXPECT_EQ(dual(S(3, 4)), S(3, 4));
    const Layout layout{{kDp, S(1)}, {kCp, P}, {kTp, R}};
    EXPECT_EQ(layout.dual(), (Layout{{kDp, S(1)}, {kCp, R}, {kTp, P}}));
    EXPECT_EQ(layout.dual().dual(), layout);
}

TEST(Layout, AxesThatAreNotNamedAreInvariant) {
    EXPECT_EQ(Layout{}.at(kDp), I);
    EXPECT_EQ((Layout{{kDp, I}}), Layout{});
    EXPECT_EQ((Layout{{kDp, I}}).count(), 0);
    EXPECT_EQ((Layout{{kDp, S(0)}}).with(kDp, I), Layout{});
}

TEST(Layout, EqualityKnowsTheOrderOfCutsOfOneDimOnly) {
    EXPECT_EQ((Layout{{kDp, S(0)}, {kTp, S(1)}}), (Layout{{kTp, S(1)}, {kDp, S(0)}}));
    EXPECT_EQ((Layout{{kDp, R}, {kTp, S(1)}}), (Layout{{kTp, S(1)}, {kDp, R}}));
    EXPECT_NE((Layout{{kDp, S(0)}, {kTp, S(0)}}), (Layout{{kTp, S(0)}, {kDp, S(0)}}));
    EXPECT_NE((Layout{{kDp, S(0)}}), (Layout{{kDp, S(1)}}));
    EXPECT_NE((Layout{{kDp, S(0)}}), (Layout{{kDp, S(0, 2)}}));
    EXPECT_NE((Layout{{kDp, S(0)}}), (Layout{{kTp, S(0)}}));
    EXPECT_NE((Layout{{kDp, R}}), Layout{});
}

// A rank slices what it holds: a cut that is new lies inside those that are there.
TEST(Layout, ANewCutIsTheInnermost) {
    const Layout parameter{{kDp, R}, {kTp, S(0)}};
    EXPECT_EQ(parameter.with(kDp, S(0)), (Layout{{kTp, S(0)}, {kDp, S(0)}}));
    EXPECT_EQ(parameter.with(kCp, S(0)), (Layout{{kTp, S(0)}, {kCp, S(0)}, {kDp, R}}));
    EXPECT_EQ((Layout{{kDp, S(1)}, {kTp, S(0)}}).with(kDp, S(0)), (Layout{{kTp, S(0)}, {kDp, S(0)}}));
    const Layout both{{kDp, S(0)}, {kTp, S(0)}};
    EXPECT_EQ(both.with(kDp, S(0)), both);
    EXPECT_EQ(both.with(kDp, P).at(kDp), P);
    EXPECT_EQ(both.with(kDp, P).at(kTp), S(0));
    EXPECT_DEATH((Layout{{kDp, R}, {kDp, S(0)}}), "twice");
}

TEST(Layout, Text) {
    const Mesh mesh = small_mesh();
    EXPECT_EQ(to_string(Layout{{kDp, S(0)}, {kCp, R}, {kTp, P}}, mesh), "dp:S(0) cp:R tp:P");
    EXPECT_EQ(to_string(Layout{{kTp, S(2, 64)}}, mesh), "tp:S(2, unit 64)");
    EXPECT_EQ(to_string(Layout{}, mesh), "I");
}

TEST(ProblemWith, Messages) {
    Mesh mesh = small_mesh();
    mesh.add_view({"dp", "cp"}, {{"ep", 6}});
    const AxisId ep = mesh.axis("ep");
    auto problem = [&](const Shape& shape, const Layout& layout) { return problem_with(shape, layout, mesh); };
    EXPECT_EQ(problem({6, 4}, {{kDp, S(0)}, {kCp, P}, {kTp, S(1)}}), "");
    EXPECT_EQ(problem({7}, {{kCp, S(0)}}), "") << "pieces need not be of one length";
    EXPECT_EQ(problem({}, {{kCp, R}}), "");
    EXPECT_EQ(problem({6, 4}, {{kDp, S(2)}}), "[6, 4] has no dim 2");
    EXPECT_EQ(problem({6, 4}, {{kDp, S(-1)}}), "[6, 4] has no dim -1");
    EXPECT_EQ(problem({6, 4}, {{kDp, S(0, 4)}}), "dim 0 of [6, 4] is no multiple of its unit 4");
    EXPECT_EQ(problem({6, 4}, {{kDp, S(0, 0)}}), "dim 0 of [6, 4] is no multiple of its unit 0");
    EXPECT_EQ(problem({2, 4}, {{kCp, S(0)}}), "dim 0 of [2, 4] has 2 units for 3 ranks along cp");
    EXPECT_EQ(problem({6, 4}, {{kCp, S(0, 3)}}), "dim 0 of [6, 4] has 2 units for 3 ranks along cp");
    EXPECT_EQ(problem({5}, {{kCp, S(0)}, {kDp, S(0)}}), "dim 0 of [5] has 1 units left for 2 ranks along dp");
    EXPECT_EQ(problem({10}, {{kCp, S(0)}, {kDp, S(0, 3)}}), "dim 0 of [10] has 1 units left for 2 ranks along dp");
    EXPECT_EQ(problem({22}, {{kCp, S(0)}, {kDp, S(0, 7)}}), "dim 0 of [22] has 1 units left for 2 ranks along dp");
    // Pieces of 6 and 7: the first divides by 3, the other does not.
    EXPECT_EQ(problem({19}, {{kCp, S(0)}, {kDp, S(0, 3)}}),
              "dim 0 of [19], a piece of 7, is no multiple of its unit 3");
    EXPECT_EQ(problem({6, 4}, {{kDp, S(0)}, {ep, R}}), "axes dp and ep run over the same ranks");
    EXPECT_EQ(problem({6, 4}, {{kTp, S(0)}, {ep, R}}), "");
}

// What problem_with accepts can be cut, and every rank holds something; what it refuses cannot.
TEST(ProblemWith, AgreesWithTheCuts) {
    const Mesh mesh = small_mesh(3, 2, 2);
    for (int length = 0; length <= 40; ++length)
        for (int outer_unit : {1, 2, 4})
            for (int inner_unit : {1, 2, 3}) {
                const Layout layout{{kDp, S(0, outer_unit)}, {kTp, S(0, inner_unit)}};
                bool cuttable = length % outer_unit == 0;
                for (int r = 0; r < 3 && cuttable; ++r) {
                    const std::int64_t piece = cut(length, r, 3, outer_unit).length();
                    cuttable = piece % inner_unit == 0 && piece / inner_unit >= 2;
                }
                EXPECT_EQ(problem_with({length}, layout, mesh).empty(), cuttable)
                    << length << " " << to_string(layout, mesh) << ": " << problem_with({length}, layout, mesh);
            }
}

}  // namespace
}  // namespace cleave

// Meshes: ranks and coordinates, groups, views. Expected values are written as closed formulas of the rank.
#include "placement/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"

namespace cleave {
namespace {

Mesh pp_outermost() {
    return Mesh({{"pp", 2}, {"dp", 3}, {"cp", 2}, {"tp", 4}});
}
Mesh dp_outermost() {
    return Mesh({{"dp", 3}, {"pp", 2}, {"cp", 2}, {"tp", 4}});
}

Mesh with_experts() {
    Mesh mesh({{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}});
    mesh.add_view({"dp", "cp", "tp"}, {{"edp", 2}, {"ep", 4}, {"etp", 1}});
    return mesh;
}

Mesh with_sub_axes() {
    Mesh mesh({{"dp", 2}, {"tp", 6}});
    mesh.add_view({"tp"}, {{"tp.kv", 2}, {"tp.rep", 3}});
    mesh.add_view({"dp"}, {{"dp.out", 2}, {"dp.in", 1}});
    return mesh;
}

// The groups along `axes` are lists of ranks that put every rank of the world into exactly one group, at its own place.
void expect_groups_tile(const Mesh& mesh, const std::vector<AxisId>& axes) {
    std::set<std::vector<int>> groups;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
        const std::vector<int> group = mesh.group(rank, axes);
        ASSERT_EQ(static_cast<int>(group.size()), mesh.joint_size(axes));
        ASSERT_EQ(group[static_cast<std::size_t>(mesh.joint_coordinate(rank, axes))], rank);
        groups.insert(group);
    }
    std::vector<int> members;
    for (const auto& group : groups) members.insert(members.end(), group.begin(), group.end());
    std::sort(members.begin(), members.end());
    ASSERT_EQ(static_cast<int>(members.size()), mesh.world_size());
    for (int rank = 0; rank < mesh.world_size(); ++rank) ASSERT_EQ(members[static_cast<std::size_t>(rank)], rank);
}

std::string user_error(const std::function<void()>& action) {
    try {
        action();
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST(Mesh, TpVariesFastestAndTheFirstAxisSlowest) {
    const Mesh mesh = pp_outermost();
    EXPECT_EQ(mesh.world_size(), 48);
    EXPECT_EQ(mesh.base_axis_count(), 4);
    for (int rank = 0; rank < 48; ++rank) {
        EXPECT_EQ(mesh.coordinate(rank, mesh.axis("pp")), rank / 24);
        EXPECT_EQ(mesh.coordinate(rank, mesh.axis("dp")), rank / 8 % 3);
        EXPECT_EQ(mesh.coordinate(rank, mesh.axis("cp")), rank / 4 % 2);
        EXPECT_EQ(mesh.coordinate(rank, mesh.axis("tp")), rank % 4);
    }
    EXPECT_EQ(mesh.coordinates(47), "pp=1 dp=2 cp=1 tp=3");
}

TEST(Mesh, TheOuterAxisIsAChoice) {
    const Mesh mesh = dp_outermost();
    for (int rank = 0; rank < 48; ++rank) {
        EXPECT_EQ(mesh.coordinate(rank, mesh.axis("dp")), rank / 16);
        EXPECT_EQ(mesh.coordinate(rank, mesh.axis("pp")), rank / 8 % 2);
    }
    EXPECT_EQ(mesh.group(5, {mesh.axis("pp")}), (std::vector<int>{5, 13}));
    EXPECT_EQ(pp_outermost().group(5, {0}), (std::vector<int>{5, 29}));
}

TEST(Mesh, GroupsShareAllOtherCoordinates) {
    const Mesh mesh = pp_outermost();
    const AxisId dp = mesh.axis("dp"), cp = mesh.axis("cp"), tp = mesh.axis("tp");
    EXPECT_EQ(mesh.group(30, {tp}), (std::vector<int>{28, 29, 30, 31}));
    EXPECT_EQ(mesh.group(30, {dp}), (std::vector<int>{30, 38, 46}));
    // Joint groups run over the first axis slowest.
    EXPECT_EQ(mesh.group(1, {dp, cp}), (std::vector<int>{1, 5, 9, 13, 17, 21}));
    EXPECT_EQ(mesh.group(1, {cp, dp}), (std::vector<int>{1, 9, 17, 5, 13, 21}));
    EXPECT_EQ(mesh.joint_coordinate(13, {dp, cp}), 3);
    EXPECT_EQ(mesh.joint_coordinate(13, {cp, dp}), 4);
    EXPECT_EQ(mesh.group(7, {}), std::vector<int>{7});
}

TEST(Mesh, GroupsTileTheWorld) {
    for (const Mesh& mesh :
         {pp_outermost(), dp_outermost(), with_experts(), with_sub_axes(), Mesh({{"dp", 1}}), Mesh({})}) {
        for (AxisId a = 0; a < mesh.axis_count(); ++a) {
            expect_groups_tile(mesh, {a});
            for (AxisId b = 0; b < mesh.axis_count(); ++b)
                if (a != b && mesh.disjoint(a, b)) expect_groups_tile(mesh, {a, b});
        }
    }
}

TEST(Mesh, ExpertViewFactorsTheSameRanksAgain) {
    const Mesh mesh = with_experts();
    EXPECT_EQ(mesh.world_size(), 16) << "a view never multiplies the world";
    EXPECT_EQ(mesh.base_axis_count(), 4);
    EXPECT_EQ(mesh.axis_count(), 7);
    const AxisId edp = mesh.axis("edp"), ep = mesh.axis("ep"), etp = mesh.axis("etp");
    for (int rank = 0; rank < 16; ++rank) {
        EXPECT_EQ(mesh.coordinate(rank, edp), rank % 8 / 4);
        EXPECT_EQ(mesh.coordinate(rank, ep), rank % 4);
        EXPECT_EQ(mesh.coordinate(rank, etp), 0);
    }
    EXPECT_EQ(mesh.group(9, {ep}), (std::vector<int>{8, 9, 10, 11})) << "within its pp stage";
    EXPECT_EQ(mesh.group(9, {edp}), (std::vector<int>{9, 13}));
    EXPECT_EQ(mesh.coordinates(9), "pp=1 dp=0 cp=0 tp=1 edp=0 ep=1 etp=0");
}

// With dp outside pp the ranks of a view are not contiguous.
TEST(Mesh, ExpertViewAroundPp) {
    Mesh mesh({{"dp", 2}, {"pp", 2}, {"tp", 2}});
    mesh.add_view({"dp", "tp"}, {{"edp", 1}, {"ep", 4}});
    EXPECT_EQ(mesh.group(0, {mesh.axis("ep")}), (std::vector<int>{0, 1, 4, 5}));
    EXPECT_EQ(mesh.group(7, {mesh.axis("ep")}), (std::vector<int>{2, 3, 6, 7}));
    EXPECT_EQ(mesh.coordinate(6, mesh.axis("ep")), 2);
}

TEST(Mesh, SubAxes) {
    const Mesh mesh = with_sub_axes();
    const AxisId kv = mesh.axis("tp.kv"), rep = mesh.axis("tp.rep");
    for (int rank = 0; rank < 12; ++rank) {
        EXPECT_EQ(mesh.coordinate(rank, kv), rank % 6 / 3);
        EXPECT_EQ(mesh.coordinate(rank, rep), rank % 3);
        EXPECT_EQ(mesh.joint_coordinate(rank, {kv, rep}), mesh.coordinate(rank, mesh.axis("tp")));
        EXPECT_EQ(mesh.group(rank, {kv, rep}), mesh.group(rank, {mesh.axis("tp")}));
    }
    EXPECT_EQ(mesh.group(7, {kv}), (std::vector<int>{7, 10}));
    EXPECT_EQ(mesh.group(7, {rep}), (std::vector<int>{6, 7, 8}));
}

TEST(Mesh, DisjointAxes) {
    Mesh mesh = with_experts();
    mesh.add_view({"tp"}, {{"tp.kv", 1}, {"tp.rep", 2}});
    mesh.add_view({"tp"}, {{"tp.a", 2}, {"tp.b", 1}});
    auto disjoint = [&](const char* a, const char* b) {
        EXPECT_EQ(mesh.disjoint(mesh.axis(a), mesh.axis(b)), mesh.disjoint(mesh.axis(b), mesh.axis(a)));
        return mesh.disjoint(mesh.axis(a), mesh.axis(b));
    };
    EXPECT_TRUE(disjoint("dp", "tp"));
    EXPECT_TRUE(disjoint("pp", "ep"));
    EXPECT_TRUE(disjoint("edp", "ep"));
    EXPECT_TRUE(disjoint("tp.kv", "tp.rep"));
    EXPECT_TRUE(disjoint("dp", "tp.kv"));
    EXPECT_FALSE(disjoint("dp", "dp"));
    EXPECT_FALSE(disjoint("ep", "ep"));
    EXPECT_FALSE(disjoint("dp", "ep"));
    EXPECT_FALSE(disjoint("tp", "tp.rep"));
    EXPECT_FALSE(disjoint("ep", "tp.rep"));
    EXPECT_FALSE(disjoint("tp.rep", "tp.a")) << "digits of two views of the same axis";
    EXPECT_DEATH(mesh.group(0, {mesh.axis("dp"), mesh.axis("ep")}), "dp and ep");
}

TEST(Mesh, Errors) {
    EXPECT_EQ(user_error([] { Mesh({{"dp", 0}}); }), "mesh axis dp: size 0 found, at least 1 accepted");
    EXPECT_EQ(user_error([] { Mesh({{"", 2}}); }), "a mesh axis needs a name");
    EXPECT_EQ(user_error([] { Mesh({{"dp", 2}, {"dp", 2}}); }), "mesh axis dp is named twice");
    EXPECT_EQ(user_error([] {
                  Mesh({{"dp", 1 << 20}, {"tp", 1 << 12}});
              }),
              "mesh axis dp: size 1048576 makes the world larger than 2147483647 ranks");
    EXPECT_EQ(user_error([] {
                  Mesh({{"dp", 2}, {"tp", 2}}).axis("ddp");
              }),
              "unknown mesh axis 'ddp'; known are dp, tp");

    Mesh mesh({{"dp", 4}, {"tp", 2}});
    EXPECT_EQ(user_error([&] {
                  mesh.add_view({"dp", "tp"}, {{"edp", 2}, {"ep", 3}});
              }),
              "the view's axes multiply to 6, but the axes they stand for to 8");
    EXPECT_EQ(user_error([&] { mesh.add_view({"dp"}, {{"a", 2}, {"tp", 2}}); }), "mesh axis tp is named twice");
    EXPECT_EQ(user_error([&] { mesh.add_view({"dp"}, {{"a", 2}, {"a", 2}}); }), "mesh axis a is named twice");
    EXPECT_EQ(user_error([&] { mesh.add_view({"sp"}, {{"a", 4}}); }), "unknown mesh axis 'sp'; known are dp, tp");
    EXPECT_EQ(mesh.axis_count(), 2) << "a refused view leaves the mesh as it was";
    EXPECT_FALSE(mesh.has("a"));
    EXPECT_DEATH(mesh.coordinate(8, 0), "rank 8");
    EXPECT_DEATH(mesh.coordinate(0, 2), "axis 2");
}

}  // namespace
}  // namespace cleave

// Executed transitions: every pair of placements, on every group size, on a tensor whose dims do not divide evenly.
#include <gtest/gtest.h>

#include <mutex>

#include "ranks.h"

namespace cleave {
namespace {

using Kind = Placement::Kind;

const Shape kShape{9, 11, 8};
const std::vector<Placement> kPlacements{R, I, P, S(0), S(1), S(2)};

// Small integers: all sums are exact in f64, so that equality is equality.
double value(std::int64_t index, int salt) {
    return static_cast<double>((index * 7919 + salt * 104729) % 23 - 11);
}

// Rank r's term of a partial tensor whose sum is value(index, salt).
double term(std::int64_t index, int salt, int rank, int ranks) {
    if (rank > 0) return value(index, salt + 100 + rank);
    double rest = value(index, salt);
    for (int r = 1; r < ranks; ++r) rest -= value(index, salt + 100 + r);
    return rest;
}

Tensor placed(Engine& engine, AxisId axis, Placement placement, int salt) {
    const int ranks = engine.mesh().size(axis);
    const int rank = engine.mesh().coordinate(engine.rank(), axis);
    return test::tensor_from(engine, kShape, {{axis, placement}}, [&](std::int64_t index) {
        return placement.is(Kind::P) ? term(index, salt, rank, ranks) : value(index, salt);
    });
}

double local_product(const Tensor& a, const Tensor& b) {
    double sum = 0;
    EXPECT_EQ(a.local_shape(), b.local_shape());
    for (std::int64_t i = 0; i < a.view().elements(); ++i) sum += test::data_of(a)[i] * test::data_of(b)[i];
    return sum;
}

class Transitions : public testing::TestWithParam<int> {};

// Whatever the placement, the ranks together still hold the same global tensor.
TEST_P(Transitions, KeepTheGlobalTensor) {
    const Mesh mesh({{"dp", GetParam()}});
    for (Placement from : kPlacements) {
        for (Placement to : kPlacements) {
            std::vector<double> sum(static_cast<std::size_t>(kShape.elements()), 0.0);
            std::mutex mutex;
            test::on_ranks(mesh, [&](CpuEngine& engine) {
                const Tensor y = engine.transition(placed(engine, 0, from, 3), {{0, to}});
                test::for_each_element(y, [&](std::int64_t index, double& element) {
                    if (to.is(Kind::P)) {
                        const std::lock_guard lock(mutex);
                        sum[static_cast<std::size_t>(index)] += element;
                    } else {
                        ASSERT_EQ(element, value(index, 3)) << to_string(from) << " -> " << to_string(to);
                    }
                });
            });
            for (std::int64_t i = 0; to.is(Kind::P) && i < kShape.elements(); ++i) {
                ASSERT_EQ(sum[static_cast<std::size_t>(i)], value(i, 3)) << to_string(from) << " -> P";
            }
        }
    }
}

// <A x, g> = <x, A' g>: the sum over ranks of local products, or one rank's product for I with I.
TEST_P(Transitions, BackwardIsTheAdjoint) {
    const Mesh mesh({{"dp", GetParam()}});
    for (Placement from : kPlacements) {
        for (Placement to : kPlacements) {
            double forward = 0;
            double backward = 0;
            std::mutex mutex;
            test::on_ranks(mesh, [&](CpuEngine& engine) {
                const Tensor x = placed(engine, 0, from, 1);
                const Tensor g = placed(engine, 0, dual(to), 2);
                const Tensor y = engine.transition(x, {{0, to}});
                const Tensor back = engine.transition(g, {{0, dual(from)}});
                const std::lock_guard lock(mutex);
                if (!to.is(Kind::I) || engine.rank() == 0) forward += local_product(y, g);
                if (!from.is(Kind::I) || engine.rank() == 0) backward += local_product(x, back);
            });
            EXPECT_EQ(forward, backward) << to_string(from) << " -> " << to_string(to);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(GroupSizes, Transitions, testing::Range(1, 9));

TEST(Transition, AlongTwoAxesTogetherIsOneGroup) {
    const Mesh mesh({{"dp", 2}, {"cp", 3}, {"tp", 1}});
    test::on_ranks(mesh, [&](CpuEngine& engine) {
        const Layout partial{{mesh.axis("dp"), P}, {mesh.axis("cp"), P}};
        const Tensor x = test::tensor_from(engine, kShape, partial,
                                           [&](std::int64_t index) { return term(index, 5, engine.rank(), 6); });
        engine.trace().start();
        const Tensor y = engine.transition(x, {{mesh.axis("dp"), R}, {mesh.axis("cp"), R}});
        test::for_each_element(y, [](std::int64_t index, double& element) { ASSERT_EQ(element, value(index, 5)); });
        int issued = 0;
        for (const Event& event : engine.trace().events()) issued += event.type == EventType::issue;
        EXPECT_EQ(issued, 1);
    });
}

TEST(Transition, SeveralInFlightFinishInAnyOrder) {
    const Mesh mesh({{"dp", 4}});
    test::on_ranks(mesh, [&](CpuEngine& engine) {
        std::vector<std::shared_ptr<PendingTransition>> pending;
        for (int i = 0; i < 5; ++i) pending.push_back(engine.start_transition(placed(engine, 0, P, i), {{0, S(1)}}));
        for (int i : {engine.rank(), (engine.rank() + 2) % 5 == engine.rank() ? 0 : (engine.rank() + 2) % 5}) {
            const Tensor y = engine.finish(pending[static_cast<std::size_t>(i)]);
            test::for_each_element(y,
                                   [&](std::int64_t index, double& element) { ASSERT_EQ(element, value(index, i)); });
            pending[static_cast<std::size_t>(i)] = nullptr;
        }
        for (int i = 0; i < 5; ++i)
            if (pending[static_cast<std::size_t>(i)]) engine.finish(pending[static_cast<std::size_t>(i)]);
    });
}

TEST(Transition, BuffersLiveFromIssueToWait) {
    const Mesh mesh({{"dp", 2}});
    test::on_ranks(mesh, [&](CpuEngine& engine) {
        const Tensor x = placed(engine, 0, S(1), 1);
        const auto pending = engine.start_transition(x, {{0, R}});
        EXPECT_GT(engine.ledger().live(MemoryKind::communication), 0);
        const Tensor y = engine.finish(pending);
        EXPECT_EQ(engine.ledger().live(MemoryKind::communication), 0);
        EXPECT_EQ(engine.ledger().live(), engine.allocator().live_bytes());
        EXPECT_EQ(engine.ledger().peak(), engine.allocator().peak_live_bytes());
    });
}

// A reduce_scatter into the piece of its own input, then an all_gather of that piece in place: no memory is allocated.
TEST(Transition, OfPiecesInPlace) {
    for (int ranks : {1, 2, 3, 4}) {
        const Mesh mesh({{"out", 2}, {"dp", ranks}});
        test::on_ranks(mesh, [&](CpuEngine& engine) {
            const Tensor x = placed(engine, 1, P, 4);
            const Tensor piece = engine.piece_of(x, {{1, S(0)}});
            EXPECT_EQ(piece.storage(), x.storage());
            const std::int64_t before = engine.ledger().live();
            const Tensor sum = engine.finish(engine.start_transition_into(x, piece));
            test::for_each_element(sum,
                                   [](std::int64_t index, double& element) { ASSERT_EQ(element, value(index, 4)); });
            const Tensor whole = engine.finish(engine.start_transition_into(sum, x.relabelled({{1, R}})));
            test::for_each_element(whole,
                                   [](std::int64_t index, double& element) { ASSERT_EQ(element, value(index, 4)); });
            EXPECT_EQ(engine.ledger().live(), before);
            EXPECT_EQ(engine.ledger().peak(), before);
        });
    }
}

TEST(Transition, IntoATensorThatExists) {
    const Mesh mesh({{"dp", 3}});
    test::on_ranks(mesh, [&](CpuEngine& engine) {
        for (const auto& [from, to] : {std::pair{P, S(0)}, {P, R}, {S(0), R}, {R, S(0)}, {S(1), S(0)}}) {
            const Tensor output = engine.alloc("output", kShape, {{0, to}}, DType::f64, MemoryKind::activations);
            engine.finish(engine.start_transition_into(placed(engine, 0, from, 6), output));
            test::for_each_element(output,
                                   [](std::int64_t index, double& element) { ASSERT_EQ(element, value(index, 6)); });
        }
    });
}

TEST(TransitionDeathTest, APieceThatLiesElsewhereInTheSameMemoryIsRefused) {
    const Mesh mesh({{"dp", 2}});
    EXPECT_DEATH(
        test::on_ranks(mesh,
                       [&](CpuEngine& engine) {
                           const Tensor x = engine.alloc("x", {8}, {{0, P}}, DType::f64, MemoryKind::gradients);
                           const Tensor piece = engine.slice_of(x, 2, "piece", {8}, {{0, S(0)}});
                           engine.finish(engine.start_transition_into(x, piece));
                       }),
        "in place");
}

TEST(TransitionDeathTest, UnlikeChangesAlongTwoAxesAreRefused) {
    const Mesh mesh({{"dp", 1}, {"tp", 1}});
    EXPECT_DEATH(
        test::on_ranks(
            mesh,
            [&](CpuEngine& engine) {
                const Tensor x = engine.alloc("x", kShape, {{0, P}, {1, S(0)}}, DType::f64, MemoryKind::activations);
                engine.transition(x, {{0, R}, {1, R}});
            }),
        "unlike changes");
}

}  // namespace
}  // namespace cleave

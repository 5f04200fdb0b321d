// Handles: several operations in flight, waited for in any order, on several groups.
#include <numeric>
#include <thread>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

TEST(Async, SeveralInFlightWaitedForOutOfOrder) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            constexpr int kOperations = 300;  // more than the places of one chunk
            std::vector<std::vector<double>> x;
            std::vector<std::vector<double>> y(kOperations, std::vector<double>(100));
            for (int k = 0; k < kOperations; ++k) x.push_back(std::vector<double>(100, world.rank() + k));
            std::vector<Handle> handles;
            for (std::size_t k = 0; k < kOperations; ++k)
                handles.push_back(world.all_reduce(x[k].data(), y[k].data(), 100, DType::f64, ReduceOp::sum));
            // Ranks wait in different orders: even ranks from the last, odd ranks from the middle on.
            for (int k = 0; k < kOperations; ++k) {
                const int which = world.rank() % 2 == 0 ? kOperations - 1 - k : (k + kOperations / 2) % kOperations;
                handles[static_cast<std::size_t>(which)].wait();
                EXPECT_EQ(y[static_cast<std::size_t>(which)][99], n * which + n * (n - 1) / 2);
            }
        });
}

TEST(Async, TestAndProgressDriveAnOperationWithoutWaiting) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const float x = 1;
            float y = 0;
            Handle h = world.all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum);
            while (!h.test()) world.progress();
            EXPECT_EQ(y, static_cast<float>(n));
            EXPECT_TRUE(h.test());
            h.wait();  // of a complete operation: nothing
        });
}

TEST(Async, ABarrierIsNotAWait) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            const float sent = static_cast<float>(world.rank());
            float received = -1;
            const int right = (world.rank() + 1) % n;
            const int left = (world.rank() + n - 1) % n;
            Handle in = world.irecv(&received, 1, DType::f32, left);
            world.barrier().wait();  // every rank has issued its recv and nobody has sent
            EXPECT_FALSE(in.test());
            EXPECT_EQ(received, -1.0f);
            world.barrier().wait();
            Handle out = world.isend(&sent, 1, DType::f32, right);
            in.wait();
            EXPECT_EQ(received, static_cast<float>(left));
            out.wait();
        });
}

TEST(Async, NothingHappensBeforeEveryoneHasIssued) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            const float x = 1;
            float y = -1;
            if (world.rank() == n - 1) {
                float go = 0;
                world.recv(&go, 1, DType::f32, 0, 9);
            }
            Handle h = world.all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum);
            if (world.rank() == 0) {
                EXPECT_FALSE(h.test());  // the last rank waits for us
                world.send(&x, 1, DType::f32, n - 1, 9);
            }
            h.wait();
            EXPECT_EQ(y, static_cast<float>(n));
        });
}

TEST(Async, ADroppedHandleIsABlockingCall) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const float x = 2;
            float y = 0;
            { const Handle h = world.all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum); }
            EXPECT_EQ(y, static_cast<float>(2 * n));
            float z = 0;
            Handle h = world.all_reduce(&x, &z, 1, DType::f32, ReduceOp::max);
            h = world.all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum);  // completes the first
            EXPECT_EQ(z, 2.0f);
            h.wait();
            EXPECT_EQ(y, static_cast<float>(2 * n));
        });
}

TEST(Groups, RowsAndColumnsOfAMesh) {
    for (const int n : sizes())
        for (int columns = 1; columns <= n; ++columns) {
            if (n % columns != 0) continue;
            on_ranks(n, [&](Communicator& world) {
                const int row = world.rank() / columns;
                const int column = world.rank() % columns;
                std::vector<int> mates(static_cast<std::size_t>(columns));
                std::iota(mates.begin(), mates.end(), row * columns);
                std::vector<int> pillar;
                for (int r = column; r < n; r += columns) pillar.push_back(r);
                Communicator across = world.group(mates);
                Communicator down = world.group(pillar);
                EXPECT_EQ(across.rank(), column);
                EXPECT_EQ(down.rank(), row);
                EXPECT_EQ(across.world_rank(0), row * columns);
                const std::int64_t x = world.rank();
                std::int64_t a = 0;
                std::int64_t d = 0;
                Handle first = across.all_reduce(&x, &a, 1, DType::i64, ReduceOp::sum);
                Handle second = down.all_reduce(&x, &d, 1, DType::i64, ReduceOp::sum);
                // Neighbours wait for their two groups in opposite orders.
                (world.rank() % 2 == 0 ? first : second).wait();
                (world.rank() % 2 == 0 ? second : first).wait();
                EXPECT_EQ(a, std::accumulate(mates.begin(), mates.end(), 0));
                EXPECT_EQ(d, std::accumulate(pillar.begin(), pillar.end(), 0));
            });
        }
}

TEST(Groups, OnlyMembersTakePartAndTheSameListMakesANewGroup) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            if (world.rank() == 0) return;
            std::vector<int> others(static_cast<std::size_t>(n - 1));
            std::iota(others.begin(), others.end(), 1);
            Communicator first = world.group(others);
            Communicator second = world.group(others);
            float x = 1;
            float y = 0;
            float z = 0;
            Handle h = first.all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum);
            second.all_reduce(&x, &z, 1, DType::f32, ReduceOp::max).wait();
            h.wait();
            EXPECT_EQ(y, static_cast<float>(n - 1));
            EXPECT_EQ(z, 1.0f);
            Communicator alone = first.group(std::vector<int>{first.rank()});
            EXPECT_EQ(alone.size(), 1);
            alone.all_reduce(&y, &y, 1, DType::f32, ReduceOp::sum).wait();
            EXPECT_EQ(y, static_cast<float>(n - 1));
        });
}

TEST(Groups, AHandleOutlivesItsCommunicator) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            std::vector<int> all(static_cast<std::size_t>(n));
            std::iota(all.begin(), all.end(), 0);
            const float x = 1;
            float y = 0;
            Handle h = world.group(all).all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum);
            h.wait();
            EXPECT_EQ(y, static_cast<float>(n));
        });
}

TEST(Groups, WrongListsAreUserErrors) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            EXPECT_THROW(world.group(std::vector<int>{1 - std::min(world.rank(), 1)}), UserError);
            EXPECT_THROW(world.group(std::vector<int>{1, 0}), UserError);
            EXPECT_THROW(world.group(std::vector<int>{0, n}), UserError);
            float x = 0;
            EXPECT_THROW(world.isend(&x, 1, DType::f32, n).wait(), UserError);
            EXPECT_THROW(world.broadcast(&x, 1, DType::f32, -1).wait(), UserError);
        });
}

}  // namespace
}  // namespace cleave::comm::test

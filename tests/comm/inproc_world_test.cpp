// What the ranks of one process share grows with their square at most: a thousand of them still fit.
#include "comm/inproc_world.h"

#include <gtest/gtest.h>

#include "steady/resident.h"

namespace cleave::comm::test {
namespace {

TEST(InprocWorld, MemoryDoesNotGrowWithTheCubeOfTheRanks) {
    const std::int64_t before = cleave::test::resident_bytes();
    const InprocWorld world(200);  // its cube in counters of 8 bytes: 64 MB an operation
    EXPECT_LT(cleave::test::resident_bytes() - before, 64 << 20);
}

TEST(InprocWorld, BytesAreCountedByWhoseTheyAre) {
    InprocWorld world(3);
    world.count(2, Operation::reduce, 0, 1, 5);
    world.count(2, Operation::reduce, 1, 1, 100);  // within a rank
    world.count(1, Operation::reduce, 0, 2, 7);
    world.count(0, Operation::send, 0, 2, 9);
    const auto at = [](Operation operation) { return static_cast<std::size_t>(operation); };
    EXPECT_EQ(world.traffic(0).sent[at(Operation::reduce)], 12);
    EXPECT_EQ(world.traffic(0).sent[at(Operation::send)], 9);
    EXPECT_EQ(world.traffic(1).received[at(Operation::reduce)], 5);
    EXPECT_EQ(world.traffic(2).received[at(Operation::reduce)], 7);
    EXPECT_EQ(world.traffic(2).sent[at(Operation::reduce)], 0);
}

}  // namespace
}  // namespace cleave::comm::test

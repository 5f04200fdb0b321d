#include "engine/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace cleave {
namespace {

TEST(OffsetAllocator, FreedNeighboursBecomeOneBlock) {
    OffsetAllocator allocator;
    const auto a = allocator.allocate(100);
    const auto b = allocator.allocate(64);
    const auto c = allocator.allocate(1);
    EXPECT_EQ(a, 0);
    EXPECT_EQ(b, 128);
    EXPECT_EQ(c, 192);
    allocator.free(a, 100);
    allocator.free(b, 64);
    EXPECT_EQ(allocator.allocate(192), 0);
    EXPECT_EQ(allocator.live_bytes(), 193);
    EXPECT_EQ(allocator.peak_extent(), 256);
}

TEST(OffsetAllocator, TakesTheSmallestBlockThatFits) {
    OffsetAllocator allocator;
    const auto large = allocator.allocate(1024);
    allocator.allocate(64);
    const auto small = allocator.allocate(128);
    allocator.allocate(64);
    allocator.free(large, 1024);
    allocator.free(small, 128);
    EXPECT_EQ(allocator.allocate(100), small);
}

TEST(OffsetAllocator, BlocksNeverOverlapAndAllReturns) {
    struct Block {
        std::int64_t offset;
        std::int64_t bytes;
    };
    OffsetAllocator allocator;
    const RandomStream random(1, "blocks");
    std::vector<Block> live;
    for (std::uint64_t i = 0; i < 4000; ++i) {
        if (live.empty() || random.uniform(2 * i) < 0.55) {
            const auto bytes = static_cast<std::int64_t>(random.below(2 * i + 1, 5000));
            live.push_back({allocator.allocate(bytes), bytes});
            std::vector<Block> sorted = live;
            std::sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
            for (std::size_t k = 1; k < sorted.size(); ++k)
                ASSERT_LE(sorted[k - 1].offset + std::max<std::int64_t>(1, sorted[k - 1].bytes), sorted[k].offset);
        } else {
            const auto k = static_cast<std::size_t>(random.below(2 * i + 1, live.size()));
            allocator.free(live[k].offset, live[k].bytes);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
        }
    }
    for (const Block& block : live) allocator.free(block.offset, block.bytes);
    EXPECT_EQ(allocator.live_bytes(), 0);
    EXPECT_EQ(allocator.allocate(1 << 20), 0);  // everything has merged into one
}

TEST(Arena, GivesAlignedMemoryThatCanBeUsed) {
    Arena arena(1 << 20);
    auto* block = static_cast<char*>(arena.allocate(1000));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kAlignment, 0u);
    std::fill(block, block + 1000, 'x');
    arena.free(block, 1000);
    EXPECT_EQ(arena.allocate(10), block);
}

TEST(Arena, BeyondTheCapacityIsAUserError) {
    Arena arena(1 << 16);
    EXPECT_THROW(arena.allocate(1 << 17), UserError);
}

}  // namespace
}  // namespace cleave

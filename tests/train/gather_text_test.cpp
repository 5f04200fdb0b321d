#include "train/gather_text.h"

#include <gmock/gmock.h>

#include "comm/launch.h"

namespace cleave {
namespace {

TEST(GatherText, RankZeroHasEveryRanksTextInOrderEmptyOnesIncluded) {
    for (int ranks : {1, 2, 5}) {
        comm::LaunchOptions launch;
        launch.ranks = ranks;
        comm::run_ranks(launch, [&](comm::Communicator& world) {
            const auto text_of = [](int rank) {
                return rank == 1 ? std::string() : std::string(static_cast<std::size_t>(100 * rank + 1), 'x') + "\xC3";
            };
            const auto texts = gather_text(world, text_of(world.rank()));
            if (world.rank() != 0) {
                EXPECT_THAT(texts, testing::IsEmpty());
                return;
            }
            ASSERT_EQ(texts.size(), static_cast<std::size_t>(ranks));
            for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank));
        });
    }
}

}  // namespace
}  // namespace cleave

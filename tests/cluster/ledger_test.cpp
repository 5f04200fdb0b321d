#include "cluster/ledger.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cleave {
namespace {

TEST(Ledger, KeepsEveryKindAndWhatThePeakConsistedOf) {
    Ledger ledger;
    ledger.allocate(MemoryKind::parameters, 100);
    ledger.allocate(MemoryKind::activations, 50);
    ledger.allocate(MemoryKind::workspace, 30);  // the peak: 180
    ledger.free(MemoryKind::workspace, 30);
    ledger.allocate(MemoryKind::activations, 20);  // activations' own peak: 70, in a total of 170
    EXPECT_EQ(ledger.live(), 170);
    EXPECT_EQ(ledger.live(MemoryKind::activations), 70);
    EXPECT_EQ(ledger.peak(), 180);
    EXPECT_EQ(ledger.at_peak(), (BytesByKind{100, 0, 0, 0, 50, 0, 30}));
    EXPECT_EQ(ledger.peak_by_kind(), (BytesByKind{100, 0, 0, 0, 70, 0, 30}));
}

TEST(Ledger, OfEqualPeaksTheFirstIsKeptAndResettingBeginsAtWhatLives) {
    Ledger ledger;
    ledger.allocate(MemoryKind::gradients, 10);
    ledger.free(MemoryKind::gradients, 10);
    ledger.allocate(MemoryKind::optimizer, 10);
    EXPECT_EQ(ledger.at_peak(), (BytesByKind{0, 0, 10, 0, 0, 0, 0}));
    ledger.reset_peak();
    EXPECT_EQ(ledger.peak(), 10);
    EXPECT_EQ(ledger.at_peak(), (BytesByKind{0, 0, 0, 10, 0, 0, 0}));
    EXPECT_EQ(ledger.peak_by_kind(), (BytesByKind{0, 0, 0, 10, 0, 0, 0}));
}

TEST(Ledger, EveryKindHasANameOfItsOwn) {
    std::set<std::string> names;
    for (int kind = 0; kind < kMemoryKinds; ++kind) names.emplace(name_of(static_cast<MemoryKind>(kind)));
    EXPECT_EQ(names.size(), static_cast<std::size_t>(kMemoryKinds));
    EXPECT_EQ(names.count("?"), 0U);
}

TEST(LedgerDeathTest, FreeingBeyondWhatLivesIsABug) {
    Ledger ledger;
    ledger.allocate(MemoryKind::gradients, 10);
    ledger.allocate(MemoryKind::optimizer, 10);
    EXPECT_DEATH(ledger.free(MemoryKind::gradients, 11), "gradients freed beyond what lives");
}

}  // namespace
}  // namespace cleave

// The merges of byte-pair encoding: which two neighbouring tokens become which, and which pair goes first.
// Thread rule: immutable once all are added; a Scratch belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace cleave {

using Token = std::int32_t;

class BpeMerges {
  public:
    explicit BpeMerges(std::size_t count);  // how many will be added, at most
    // Each goes behind all that were added before; a pair that is added again moves to its new place.
    void add(Token left, Token right, Token merged);

    class Scratch {
      private:
        friend class BpeMerges;
        struct Candidate {
            std::uint64_t order;  // the merge's place, then the position: the least comes first
            Token left, right, merged;
            bool operator>(const Candidate& other) const { return order > other.order; }
        };
        struct Symbol {
            Token token;  // -1: merged into the one before
            std::uint32_t previous, next;
        };
        std::vector<Symbol> symbols_;
        std::vector<Candidate> candidates_;  // a heap
    };
    // Merges until no pair of neighbours is left that can: always the first in the order of merges, of equals the
    // leftmost. Time n log n.
    void apply(std::vector<Token>& tokens, Scratch& scratch) const;

  private:
    struct Merge {
        std::uint64_t pair = kNone;
        std::uint32_t place = 0;
        Token merged = 0;
    };
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::size_t slot_of(std::uint64_t pair) const;
    void propose(Scratch& scratch, std::uint32_t position) const;

    std::vector<Merge> table_;  // open addressing, at most half full
    std::uint32_t next_place_ = 0;
};

}  // namespace cleave

#include "train/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/error.h"

namespace cleave {
namespace {

constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

std::uint64_t pair_of(Token left, Token right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

BpeMerges::BpeMerges(std::size_t count) : table_(std::bit_ceil(2 * count + 2)) {}

std::size_t BpeMerges::slot_of(std::uint64_t pair) const {
    const std::size_t mask = table_.size() - 1;
    std::uint64_t mixed = pair * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 32;
    std::size_t slot = mixed & mask;
    while (table_[slot].pair != pair && table_[slot].pair != kNone) slot = (slot + 1) & mask;
    return slot;
}

void BpeMerges::add(Token left, Token right, Token merged) {
    CLEAVE_CHECK(2 * (std::size_t{next_place_} + 1) <= table_.size(), "more merges than announced");
    const std::uint64_t pair = pair_of(left, right);
    table_[slot_of(pair)] = {pair, next_place_++, merged};
}

void BpeMerges::propose(Scratch& scratch, std::uint32_t position) const {
    const auto& symbol = scratch.symbols_[position];
    if (symbol.next == kEnd) return;
    const Token right = scratch.symbols_[symbol.next].token;
    const Merge& merge = table_[slot_of(pair_of(symbol.token, right))];
    if (merge.pair == kNone) return;
    scratch.candidates_.push_back({std::uint64_t{merge.place} << 32 | position, symbol.token, right, merge.merged});
    std::push_heap(scratch.candidates_.begin(), scratch.candidates_.end(), std::greater<>());
}

void BpeMerges::apply(std::vector<Token>& tokens, Scratch& scratch) const {
    CLEAVE_CHECK(tokens.size() < kEnd);
    auto& symbols = scratch.symbols_;
    auto& candidates = scratch.candidates_;
    const auto count = static_cast<std::uint32_t>(tokens.size());
    symbols.resize(count);
    candidates.clear();
    for (std::uint32_t i = 0; i < count; ++i)
        symbols[i] = {tokens[i], i == 0 ? kEnd : i - 1, i + 1 < count ? i + 1 : kEnd};
    for (std::uint32_t i = 0; i < count; ++i) propose(scratch, i);
    while (!candidates.empty()) {
        std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
        const Scratch::Candidate best = candidates.back();
        candidates.pop_back();
        const auto at = static_cast<std::uint32_t>(best.order);
        auto& left = symbols[at];
        // Either of the two may have been merged with another since.
        if (left.token != best.left || left.next == kEnd || symbols[left.next].token != best.right) continue;
        auto& right = symbols[left.next];
        left.token = best.merged;
        left.next = right.next;
        right.token = -1;
        if (left.next != kEnd) symbols[left.next].previous = at;
        if (left.previous != kEnd) propose(scratch, left.previous);
        propose(scratch, at);
    }
    tokens.clear();
    for (std::uint32_t i = 0; i != kEnd && count != 0; i = symbols[i].next) tokens.push_back(symbols[i].token);
}

}  // namespace cleave

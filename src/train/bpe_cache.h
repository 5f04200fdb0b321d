// Words that were met before, with their tokens. Most words of a text are: this is what makes encoding fast.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "train/bpe_merges.h"

namespace cleave {

class BpeCache {
  public:
    static constexpr std::size_t kLongest = 256;  // bytes of a word that is kept

    // The tokens of `word`; an empty span where it is not here. Valid until the next add.
    std::span<const Token> find(std::string_view word) {
        hash_ = hash64(word);
        for (std::size_t i = hash_ & mask_;; i = (i + 1) & mask_) {
            const Slot& slot = slots_[i];
            if (slot.count == 0) return {};
            if (slot.hash == hash_ && slot.length == word.size() &&
                std::memcmp(words_.data() + slot.word, word.data(), word.size()) == 0)
                return {tokens_.data() + slot.tokens, slot.count};
        }
    }
    // Keeps the word that find() was asked for last, and did not have.
    void add(std::string_view word, std::span<const Token> tokens) {
        if (word.size() > kLongest || tokens.empty()) return;
        if (2 * (used_ + 1) > slots_.size()) grow();
        insert({hash_, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(tokens_.size()),
                static_cast<std::uint32_t>(word.size()), static_cast<std::uint32_t>(tokens.size())});
        words_.insert(words_.end(), word.begin(), word.end());
        tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
        ++used_;
    }

  private:
    struct Slot {
        std::uint64_t hash = 0;
        std::uint32_t word = 0;
        std::uint32_t tokens = 0;
        std::uint32_t length = 0;
        std::uint32_t count = 0;  // 0: empty
    };
    static constexpr std::size_t kFirstSlots = 1 << 10;
    static constexpr std::size_t kMostSlots = 1 << 20;  // then it starts anew: at most 130 MB of words and tokens each

    void insert(const Slot& slot) {
        std::size_t i = slot.hash & mask_;
        while (slots_[i].count != 0) i = (i + 1) & mask_;
        slots_[i] = slot;
    }
    void grow() {
        std::vector<Slot> old(slots_.size() == kMostSlots ? kFirstSlots : 2 * slots_.size());
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        if (old.size() == kMostSlots) {
            words_.clear();
            tokens_.clear();
            used_ = 0;
            return;
        }
        for (const Slot& slot : old)
            if (slot.count != 0) insert(slot);
    }

    std::vector<Slot> slots_ = std::vector<Slot>(kFirstSlots);
    std::size_t mask_ = kFirstSlots - 1;
    std::size_t used_ = 0;
    std::uint64_t hash_ = 0;
    std::vector<char> words_;
    std::vector<Token> tokens_;
};

}  // namespace cleave

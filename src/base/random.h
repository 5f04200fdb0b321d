// Counter-based random numbers: the value depends on (seed, name, global index) only, never on the layout, the rank or
// what was drawn before. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// Thread rule: a RandomStream is immutable; any number of threads may draw from it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cleave {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class RandomStream {
  public:
    // `step` separates draws of one name in different steps (dropout, the order of samples).
    RandomStream(std::uint64_t seed, std::string_view name, std::uint64_t step = 0);

    // All words of `kBlockWords / 4` consecutive counters, from block * kBlockWords / 4 on: word w of them is word
    // w mod 4 of counter block * kBlockWords / 4 + w / 4. For kernels that need many.
    static constexpr int kBlockWords = 64;
    void block(std::uint64_t block, std::array<std::uint32_t, kBlockWords>& words) const;

    std::uint64_t bits(std::uint64_t index) const;
    double uniform(std::uint64_t index) const;                        // [0, 1), 53 bits
    double normal(std::uint64_t index) const;                         // mean 0, variance 1 (Box-Muller)
    std::uint64_t below(std::uint64_t index, std::uint64_t n) const;  // 0 .. n-1, n > 0; bias under n / 2^64

  private:
    std::array<std::uint32_t, 4> draw(std::uint64_t index) const;
    std::array<std::uint32_t, 2> key_;
    std::uint64_t high_;  // the upper half of the counter, from the step
};

}  // namespace cleave

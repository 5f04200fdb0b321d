#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace cleave {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
        c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
             static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return c;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view name, std::uint64_t step) : high_(step) {
    const std::uint64_t key = hash64(name, seed);
    key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

std::array<std::uint32_t, 4> RandomStream::draw(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(high_), static_cast<std::uint32_t>(high_ >> 32)},
                  key_);
}

void RandomStream::block(std::uint64_t block, std::array<std::uint32_t, kBlockWords>& words) const {
    // philox() above on kLanes counters side by side, so that the compiler makes vectors of it.
    constexpr std::size_t kLanes = kBlockWords / 4;
    std::array<std::uint32_t, kLanes> a, b, c, d;
    for (std::size_t i = 0; i < kLanes; ++i) {
        const std::uint64_t counter = block * kLanes + i;
        a[i] = static_cast<std::uint32_t>(counter);
        b[i] = static_cast<std::uint32_t>(counter >> 32);
        c[i] = static_cast<std::uint32_t>(high_);
        d[i] = static_cast<std::uint32_t>(high_ >> 32);
    }
    std::array<std::uint32_t, 2> k = key_;
    for (int round = 0; round < 10; ++round) {
        for (std::size_t i = 0; i < kLanes; ++i) {
            const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * a[i];
            const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[i];
            a[i] = static_cast<std::uint32_t>(p1 >> 32) ^ b[i] ^ k[0];
            b[i] = static_cast<std::uint32_t>(p1);
            c[i] = static_cast<std::uint32_t>(p0 >> 32) ^ d[i] ^ k[1];
            d[i] = static_cast<std::uint32_t>(p0);
        }
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (std::size_t i = 0; i < kLanes; ++i) {
        words[4 * i] = a[i];
        words[4 * i + 1] = b[i];
        words[4 * i + 2] = c[i];
        words[4 * i + 3] = d[i];
    }
}

std::uint64_t RandomStream::bits(std::uint64_t index) const {
    const auto r = draw(index);
    return (std::uint64_t{r[1]} << 32) | r[0];
}

double RandomStream::uniform(std::uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1.0p-53;
}

double RandomStream::normal(std::uint64_t index) const {
    const auto r = draw(index);
    const std::uint64_t a = (std::uint64_t{r[1]} << 32) | r[0];
    const std::uint64_t b = (std::uint64_t{r[3]} << 32) | r[2];
    const double u = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]: its logarithm is finite
    const double v = static_cast<double>(b >> 11) * 0x1.0p-53;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t n) const {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits(index)) * n) >> 64);
}

}  // namespace cleave

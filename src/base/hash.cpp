#include "base/hash.h"

#include <xxhash.h>

namespace cleave {

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
    return XXH64(text.data(), text.size(), seed);
}

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
    return XXH64(bytes.data(), bytes.size(), seed);
}

}  // namespace cleave

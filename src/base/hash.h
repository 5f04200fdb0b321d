// 64-bit hashes (XXH64) for checksums, fingerprints and random keys. File formats hold their values: they never change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cleave {

std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace cleave

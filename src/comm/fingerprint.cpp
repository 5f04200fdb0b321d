#include "comm/fingerprint.h"

#include <fmt/format.h>

#include <numeric>

#include "base/hash.h"

namespace cleave::comm {

Fingerprint fingerprint_of(const Spec& spec, DType dtype, ReduceOp op, std::uint64_t sequence) {
    Fingerprint f;
    f.sequence = sequence;
    f.counts_hash = hash64(std::as_bytes(std::span(spec.counts)), spec.counts.size());
    f.elements = std::accumulate(spec.counts.begin(), spec.counts.end(), std::int64_t{0});
    f.root = spec.root;
    f.operation = spec.operation;
    f.op = reduces(spec.operation) ? op : ReduceOp::sum;
    f.dtype = spec.operation == Operation::barrier ? DType::u8 : dtype;
    f.algorithm = spec.algorithm;
    const std::uint64_t fields[] = {
        sequence, f.counts_hash, static_cast<std::uint64_t>(f.root) << 32 | static_cast<std::uint64_t>(spec.inner),
        static_cast<std::uint64_t>(f.operation) << 24 | static_cast<std::uint64_t>(f.op) << 16 |
            static_cast<std::uint64_t>(f.dtype) << 8 | static_cast<std::uint64_t>(f.algorithm)};
    f.hash = hash64(std::as_bytes(std::span(fields)));
    return f;
}

std::string to_string(const Fingerprint& f) {
    std::string text = fmt::format("{} #{} (", name_of(f.operation), f.sequence);
    if (f.operation != Operation::barrier) {
        if (reduces(f.operation)) text += fmt::format("{}, ", name_of(f.op));
        text += fmt::format("{}, {} elements, ", name_of(f.dtype), f.elements);
        if (has_root(f.operation)) text += fmt::format("root {}, ", f.root);
    }
    return text + fmt::format("{})", name_of(f.algorithm));
}

std::string of_ranks(std::span<const int> world_ranks) {
    constexpr std::size_t kListed = 8;
    if (world_ranks.size() > kListed)
        return fmt::format(" of {} ranks, {} to {}", world_ranks.size(), world_ranks.front(), world_ranks.back());
    return fmt::format(" of ranks {}", fmt::join(world_ranks, ", "));
}

}  // namespace cleave::comm

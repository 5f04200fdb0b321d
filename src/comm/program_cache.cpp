#include "comm/program_cache.h"

#include "base/hash.h"
#include "comm/algorithm.h"

namespace cleave::comm {
namespace {

bool same(const Spec& a, const Spec& b) {
    return a.operation == b.operation && a.algorithm == b.algorithm && a.size == b.size && a.root == b.root &&
           a.inner == b.inner && a.counts == b.counts;
}

}  // namespace

std::shared_ptr<const PreparedProgram> ProgramCache::get(const Spec& spec) {
    const std::uint64_t kind = static_cast<std::uint64_t>(spec.operation) << 40 |
                               static_cast<std::uint64_t>(spec.algorithm) << 32 | static_cast<std::uint64_t>(spec.root);
    const std::uint64_t key = hash64(std::as_bytes(std::span(spec.counts)), kind);
    const auto [first, last] = programs_.equal_range(key);
    for (auto it = first; it != last; ++it)
        if (same(it->second->program.spec, spec)) return it->second;

    constexpr std::size_t kKept = 256;  // counts that change every step (experts) must not fill the memory
    if (programs_.size() >= kKept) programs_.clear();
    auto prepared = std::make_shared<PreparedProgram>();
    prepared->program = build_program(spec);
    prepared->schedule = schedule_of(prepared->program, rank_);
    programs_.emplace(key, prepared);
    return prepared;
}

}  // namespace cleave::comm

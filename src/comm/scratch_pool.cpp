#include "comm/scratch_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace cleave::comm {
namespace {
constexpr std::align_val_t kAlignment{64};
}

ScratchPool::~ScratchPool() {
    for (const Block& b : free_) ::operator delete(b.data, kAlignment);
}

ScratchPool::Block ScratchPool::take(std::int64_t bytes) {
    if (bytes == 0) return {};
    const auto fits = [&](const Block& b) {
        return b.bytes >= bytes && b.bytes <= 2 * std::max<std::int64_t>(bytes, 4096);
    };
    const auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found != free_.end()) {
        const Block block = *found;
        free_.erase(found);
        return block;
    }
    return {static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment)), bytes};
}

void ScratchPool::give_back(Block block) {
    if (block.data == nullptr) return;
    constexpr std::size_t kKept = 16;
    if (free_.size() == kKept) {  // sizes have changed: the oldest block is the one nobody asks for
        ::operator delete(free_.front().data, kAlignment);
        free_.erase(free_.begin());
    }
    free_.push_back(block);
}

}  // namespace cleave::comm

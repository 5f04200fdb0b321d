#include "engine/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace cleave {

namespace {

std::int64_t aligned(std::int64_t bytes) {
    return std::max<std::int64_t>(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

std::int64_t OffsetAllocator::allocate(std::int64_t bytes) {
    const std::int64_t size = aligned(bytes);
    live_ += bytes;
    peak_live_ = std::max(peak_live_, live_);
    auto best = free_.end();
    for (auto block = free_.begin(); block != free_.end(); ++block)
        if (block->bytes >= size && (best == free_.end() || block->bytes < best->bytes)) best = block;
    std::int64_t offset = end_;
    if (best == free_.end()) {
        end_ += size;
        peak_extent_ = std::max(peak_extent_, end_);
    } else {
        offset = best->offset;
        best->offset += size;
        best->bytes -= size;
        if (best->bytes == 0) free_.erase(best);
    }
    return offset;
}

void OffsetAllocator::free(std::int64_t offset, std::int64_t bytes) {
    const std::int64_t size = aligned(bytes);
    live_ -= bytes;
    auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                                 [](const Block& block, std::int64_t at) { return block.offset < at; });
    if (next != free_.end() && offset + size == next->offset) {
        next->offset = offset;
        next->bytes += size;
    } else {
        next = free_.insert(next, {offset, size});
    }
    if (next != free_.begin()) {
        auto previous = std::prev(next);
        if (previous->offset + previous->bytes == next->offset) {
            previous->bytes += next->bytes;
            free_.erase(next);
            next = previous;
        }
    }
    if (next->offset + next->bytes == end_) {
        end_ = next->offset;
        free_.erase(next);
    }
}

void OffsetAllocator::reset_peak() {
    peak_live_ = live_;
    peak_extent_ = end_;
}

Arena::Arena(std::int64_t capacity) : capacity_(capacity) {
    void* range = mmap(nullptr, static_cast<std::size_t>(capacity), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        throw UserError("cannot reserve {} bytes of address space: {} (is ulimit -v set?)", capacity,
                        std::strerror(errno));
    // Large pages where the system has them: fewer TLB misses in the products. Advice only, so its failure is none.
    madvise(range, static_cast<std::size_t>(capacity), MADV_HUGEPAGE);
    base_ = static_cast<std::byte*>(range);
}

Arena::~Arena() {
    munmap(base_, static_cast<std::size_t>(capacity_));
}

void* Arena::allocate(std::int64_t bytes) {
    const std::int64_t offset = allocator_.allocate(bytes);
    if (allocator_.peak_extent() > capacity_)
        throw UserError(
            "this rank needs more than the {:.1f} GiB of memory of this machine: make model, microbatch or "
            "sequence smaller",
            static_cast<double>(capacity_) / (1 << 30));
    return base_ + offset;
}

void Arena::free(void* block, std::int64_t bytes) {
    allocator_.free(static_cast<std::byte*>(block) - base_, bytes);
}

std::int64_t physical_memory() {
    return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

}  // namespace cleave

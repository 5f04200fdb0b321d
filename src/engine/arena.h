// A rank's memory. OffsetAllocator decides where in an address range a block lies; it is the same for an engine with
// storage and for one without, so that both know the extent of the range that a program needs. Arena backs it with one
// reserved range of address space whose pages are touched on first use: a steady state asks the system for nothing.
// Thread rule: one rank's thread (peers may read and write the bytes of a block, never the bookkeeping).
#pragma once

#include <cstdint>
#include <vector>

namespace cleave {

inline constexpr std::int64_t kAlignment = 64;  // of every block, in bytes: a cache line, an AVX-512 register

class OffsetAllocator {
  public:
    // The lowest best-fitting free block, else the end of the range. Deterministic: the same calls give the same
    // offsets.
    std::int64_t allocate(std::int64_t bytes);
    void free(std::int64_t offset, std::int64_t bytes);

    std::int64_t live_bytes() const { return live_; }  // as asked for
    std::int64_t peak_live_bytes() const { return peak_live_; }
    std::int64_t peak_extent() const { return peak_extent_; }  // the highest end of any block
    void reset_peak();

  private:
    struct Block {
        std::int64_t offset;
        std::int64_t bytes;
    };
    std::vector<Block> free_;  // by offset, neighbours merged
    std::int64_t end_ = 0;     // beyond it all is free
    std::int64_t live_ = 0;
    std::int64_t peak_live_ = 0;
    std::int64_t peak_extent_ = 0;
};

class Arena {
  public:
    // Reserves `capacity` bytes of address space (not of memory). UserError if even that is refused.
    explicit Arena(std::int64_t capacity);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    void* allocate(std::int64_t bytes);
    void free(void* block, std::int64_t bytes);
    const OffsetAllocator& allocator() const { return allocator_; }
    void reset_peak() { allocator_.reset_peak(); }

  private:
    OffsetAllocator allocator_;
    std::byte* base_ = nullptr;
    std::int64_t capacity_;
};

// The bytes of memory of this machine.
std::int64_t physical_memory();

}  // namespace cleave

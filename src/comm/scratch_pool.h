// Memory for partial sums and messages in transit, kept for reuse: a steady state allocates nothing.
// Thread rule: one pool a rank, used by its thread alone (others may read and write the blocks it hands out).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cleave::comm {

class ScratchPool {
  public:
    struct Block {
        std::byte* data = nullptr;
        std::int64_t bytes = 0;
    };
    ScratchPool() = default;
    ScratchPool(const ScratchPool&) = delete;
    ScratchPool& operator=(const ScratchPool&) = delete;
    ~ScratchPool();

    Block take(std::int64_t bytes);  // aligned to a cache line; an empty Block for 0 bytes
    void give_back(Block block);

  private:
    std::vector<Block> free_;
};

}  // namespace cleave::comm

#include "engine/virtual_engine.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace cleave {

VirtualEngine::VirtualEngine(const Mesh& mesh, int rank, comm::TransportKind transport, int team)
    : Engine(mesh, rank, transport) {
    omp_set_num_threads(team);
}

double VirtualEngine::read(const Tensor& scalar, double stated) {
    if (trace().on()) record({EventType::read, "read", scalar.name(), scalar.view().bytes(), 0, 0, 0, 0});
    return stated;
}

void VirtualEngine::read_bytes(const Tensor& tensor, std::span<std::byte> bytes) {
    if (trace().on()) record({EventType::read, "read", tensor.name(), tensor.view().bytes(), 0, 0, 0, 0});
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
}

// A block's address is its offset plus one: never null, so that views know that they have a place, and never followed,
// because no kernel runs.
void* VirtualEngine::acquire(std::int64_t bytes) {
    const auto address = static_cast<std::uintptr_t>(allocator_.allocate(bytes) + 1);
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): never followed
}

void VirtualEngine::name_block(void* block, std::int64_t bytes, MemoryKind kind, std::string_view name) {
    if (keeps_names_ && bytes > 0) named_[block] = {std::string(name), kind, bytes};
}

std::vector<VirtualEngine::Block> VirtualEngine::live_blocks() const {
    std::vector<Block> blocks;
    for (const auto& [address, block] : named_) blocks.push_back(block);
    return blocks;
}

void VirtualEngine::give_back(void* block, std::int64_t bytes) {
    if (bytes > 0) named_.erase(block);
    allocator_.free(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(block)) - 1, bytes);
}

void VirtualEngine::reset_peaks() {
    allocator_.reset_peak();
    ledger().reset_peak();
}

}  // namespace cleave

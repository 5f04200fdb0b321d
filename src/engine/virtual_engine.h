// The engine without storage: the same program, checked, accounted and recorded, nothing executed. Memory peaks come
// from the same ledger, and the extent of the arena from the same allocator. Thread rule: one rank's thread; ranks may
// be run one after the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/arena.h"
#include "engine/engine.h"

namespace cleave {

class VirtualEngine final : public Engine {
  public:
    // `team`: threads of a rank, on which the scratch of library kernels depends.
    VirtualEngine(const Mesh& mesh, int rank, comm::TransportKind transport, int team);

    bool is_virtual() const override { return true; }
    double read(const Tensor& scalar, double stated) override;
    void read_bytes(const Tensor& tensor, std::span<std::byte> bytes) override;
    const OffsetAllocator& allocator() const { return allocator_; }
    void reset_peaks();

    // What lives, by the name of its tensor, in the order of addresses; from keep_names() on.
    struct Block {
        std::string name;
        MemoryKind kind;
        std::int64_t bytes;
    };
    void keep_names() { keeps_names_ = true; }
    std::vector<Block> live_blocks() const;

  private:
    void* acquire(std::int64_t bytes) override;
    void give_back(void* block, std::int64_t bytes) override;
    void name_block(void* block, std::int64_t bytes, MemoryKind kind, std::string_view name) override;
    void run(const kernels::Kernel&, kernels::Views, kernels::Views, void*) override {}
    void run_local(const Exchange&) override {}
    std::shared_ptr<void> start(const Exchange&) override { return nullptr; }
    void complete(const Exchange&, const std::shared_ptr<void>&) override {}
    std::shared_ptr<void> start_message(const Tensor&, bool, int, int) override { return nullptr; }
    void complete_message(const std::shared_ptr<void>&) override {}
    void copy_in(const Tensor&, std::span<const std::byte>) override {}

    OffsetAllocator allocator_;
    bool keeps_names_ = false;
    std::map<void*, Block> named_;
};

}  // namespace cleave

// The engine that executes: kernels on the rank's team of threads, transitions through its communicators, memory from
// an arena. While kernels run, collectives in flight are moved along between launches. Thread rule: one rank's thread;
// that thread's team size is set by the constructor.
#pragma once

#include <map>
#include <vector>

#include "comm/communicator.h"
#include "engine/arena.h"
#include "engine/engine.h"

namespace cleave {

class CpuEngine final : public Engine {
  public:
    // `world`: of mesh.world_size() ranks; outlives the engine. `team`: threads of this rank.
    CpuEngine(const Mesh& mesh, comm::Communicator& world, int team);

    bool is_virtual() const override { return false; }
    double read(const Tensor& scalar, double stated) override;
    void read_bytes(const Tensor& tensor, std::span<std::byte> bytes) override;

    comm::Communicator& world() { return world_; }
    int team() const { return team_; }
    // What the arena measured, independently of the ledger.
    const OffsetAllocator& allocator() const { return arena_.allocator(); }
    void reset_peaks();

  private:
    void* acquire(std::int64_t bytes) override { return arena_.allocate(bytes); }
    void give_back(void* block, std::int64_t bytes) override { arena_.free(block, bytes); }
    void run(const kernels::Kernel& kernel, kernels::Views inputs, kernels::Views outputs, void* workspace) override;
    void progress() override;
    void run_local(const Exchange& exchange) override;
    std::shared_ptr<void> start(const Exchange& exchange) override;
    void complete(const Exchange& exchange, const std::shared_ptr<void>& token) override;
    std::shared_ptr<void> start_message(const Tensor& tensor, bool sends, int rank, int tag) override;
    void complete_message(const std::shared_ptr<void>& token) override;
    void copy_in(const Tensor& tensor, std::span<const std::byte> bytes) override;

    comm::Communicator& group(const std::vector<AxisId>& axes);

    comm::Communicator& world_;
    int team_;
    Arena arena_;
    std::map<std::vector<AxisId>, comm::Communicator> groups_;  // made at first use, by all members in program order
};

// Threads for each of `local_ranks` ranks of this machine (base/cores.h).
int team_size(int local_ranks);

}  // namespace cleave

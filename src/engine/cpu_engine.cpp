#include "engine/cpu_engine.h"

#include <omp.h>

#include <cstring>

#include "base/cores.h"
#include "comm/launch.h"

namespace cleave {

int team_size(int local_ranks) {
    return threads_a_rank(local_ranks, comm::under_mpirun());
}

CpuEngine::CpuEngine(const Mesh& mesh, comm::Communicator& world, int team)
    : Engine(mesh, world.rank(), world.transport()), world_(world), team_(team), arena_(physical_memory()) {
    CLEAVE_CHECK(world.size() == mesh.world_size(), "a mesh of {} ranks on a world of {}", mesh.world_size(),
                 world.size());
    omp_set_num_threads(team);
}

void CpuEngine::run(const kernels::Kernel& kernel, kernels::Views inputs, kernels::Views outputs, void* workspace) {
    kernel.run(inputs, outputs, workspace);
}

void CpuEngine::progress() {
    world_.progress();
}

double CpuEngine::read(const Tensor& scalar, double) {
    CLEAVE_CHECK(scalar.view().elements() == 1, "read of {}", scalar.name());
    const double begin = trace().now();
    const double value = dispatch(scalar.dtype(), [&]<class T>(T) {
        if constexpr (std::is_same_v<T, bf16>)
            return static_cast<double>(static_cast<float>(*scalar.view().as<T>()));
        else
            return static_cast<double>(*scalar.view().as<T>());
    });
    if (trace().on())
        record({EventType::read, "read", scalar.name(), scalar.view().bytes(), 0, 0, begin, trace().now()});
    return value;
}

void CpuEngine::read_bytes(const Tensor& tensor, std::span<std::byte> bytes) {
    CLEAVE_CHECK(static_cast<std::int64_t>(bytes.size()) == tensor.view().bytes() && tensor.view().dense());
    const double begin = trace().now();
    std::memcpy(bytes.data(), tensor.view().data, bytes.size());
    if (trace().on())
        record({EventType::read, "read", tensor.name(), tensor.view().bytes(), 0, 0, begin, trace().now()});
}

void CpuEngine::copy_in(const Tensor& tensor, std::span<const std::byte> bytes) {
    CLEAVE_CHECK(tensor.view().dense());
    std::memcpy(tensor.view().data, bytes.data(), bytes.size());
}

void CpuEngine::run_local(const Exchange& exchange) {
    run_local_action(exchange, mesh(), rank());
}

comm::Communicator& CpuEngine::group(const std::vector<AxisId>& axes) {
    auto found = groups_.find(axes);
    if (found == groups_.end()) found = groups_.emplace(axes, world_.group(mesh().group(rank(), axes))).first;
    return found->second;
}

std::shared_ptr<void> CpuEngine::start(const Exchange& exchange) {
    pack(exchange, mesh(), rank());
    const Tensor& from = exchange.send ? exchange.send : exchange.input;
    const Tensor& to = exchange.receive ? exchange.receive : exchange.output;
    auto handle =
        group(exchange.axes).start(spec_of(exchange, mesh(), rank()), from.view().data, to.view().data, from.dtype());
    return std::make_shared<comm::Handle>(std::move(handle));
}

void CpuEngine::complete(const Exchange& exchange, const std::shared_ptr<void>& token) {
    static_cast<comm::Handle*>(token.get())->wait();
    unpack(exchange, mesh(), rank());
}

std::shared_ptr<void> CpuEngine::start_message(const Tensor& tensor, bool sends, int rank, int tag) {
    const kernels::View& view = tensor.view();
    return std::make_shared<comm::Handle>(sends ? world_.isend(view.data, view.elements(), view.dtype, rank, tag)
                                                : world_.irecv(view.data, view.elements(), view.dtype, rank, tag));
}

void CpuEngine::complete_message(const std::shared_ptr<void>& token) {
    static_cast<comm::Handle*>(token.get())->wait();
}

void CpuEngine::reset_peaks() {
    arena_.reset_peak();
    ledger().reset_peak();
}

}  // namespace cleave

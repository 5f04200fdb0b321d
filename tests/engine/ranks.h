// Test helpers: a mesh of one axis over rank threads, tensors from functions of the global index, values back.
#pragma once

#include <functional>
#include <vector>

#include "comm/launch.h"
#include "engine/cpu_engine.h"

namespace cleave::test {

// Calls `body` with an engine on each of mesh.world_size() rank threads, one OpenMP thread each.
inline void on_ranks(const Mesh& mesh, const std::function<void(CpuEngine&)>& body) {
    comm::LaunchOptions options;
    options.ranks = mesh.world_size();
    options.timeout = std::chrono::seconds(20);
    comm::run_ranks(options, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        body(engine);
    });
}

inline double* data_of(const Tensor& tensor) {
    return static_cast<double*>(tensor.view().data);
}

// Calls f(global row-major index, local element) for every element of this rank's piece.
template <class F>
void for_each_element(const Tensor& tensor, F&& f) {
    const auto& view = tensor.view();
    const Shape global_strides = kernels::dense_strides(view.global);
    Shape index = Shape::filled(view.shape.rank(), 0);
    for (std::int64_t n = 0; n < view.elements(); ++n) {
        std::int64_t global = 0;
        for (int d = 0; d < index.rank(); ++d) global += (index[d] + view.offset[d]) * global_strides[d];
        f(global, data_of(tensor)[n]);
        for (int d = index.rank() - 1; d >= 0 && ++index[d] == view.shape[d]; --d) index[d] = 0;
    }
}

inline Tensor tensor_from(Engine& engine, const Shape& shape, const Layout& layout,
                          const std::function<double(std::int64_t)>& value) {
    Tensor tensor = engine.alloc("x", shape, layout, DType::f64, MemoryKind::activations);
    for_each_element(tensor, [&](std::int64_t index, double& element) { element = value(index); });
    return tensor;
}

}  // namespace cleave::test

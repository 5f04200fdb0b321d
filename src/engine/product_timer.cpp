#include "engine/product_timer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cleave {

namespace {

using kernels::Gemm;

std::int64_t workspace_bytes(const Gemm& g) {
    return g.input == DType::f64 ? kernels::own_workspace_bytes(g) : kernels::onednn_workspace_bytes(g);
}

// A block as large as the largest product needs, filled with a number that is small in every dtype, so that its pages
// are there and no arithmetic meets a denormal.
template <class Bytes>
void* block(Arena& arena, const std::vector<Gemm>& gemms, Bytes&& bytes_of) {
    constexpr int kSmallNumber = 0x3c;  // 0x3c3c..: 0.011 in f32 and bf16, 2e-18 in f64
    std::int64_t most = 0;
    for (const Gemm& gemm : gemms) most = std::max<std::int64_t>(most, bytes_of(gemm));
    void* memory = arena.allocate(most);
    std::memset(memory, kSmallNumber, static_cast<std::size_t>(most));
    return memory;
}

}  // namespace

ProductTimer::ProductTimer(std::vector<Gemm> gemms)
    : gemms_(std::move(gemms)),
      arena_(physical_memory()),
      a_(block(arena_, gemms_, [](const Gemm& g) { return g.m * g.k * size_of(g.input); })),
      b_(block(arena_, gemms_, [](const Gemm& g) { return g.k * g.n * size_of(g.input); })),
      bias_(block(arena_, gemms_, [](const Gemm& g) { return g.n * size_of(g.input); })),
      y_(block(arena_, gemms_, [](const Gemm& g) { return g.m * g.n * size_of(g.output); })),
      workspace_(block(arena_, gemms_, workspace_bytes)) {}

double ProductTimer::seconds(std::size_t index, std::int64_t calls) const {
    using Clock = std::chrono::steady_clock;
    const Gemm& gemm = gemms_[index];
    const kernels::GemmOperands operands{a_, b_, gemm.bias ? bias_ : nullptr, y_};
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i)
        gemm.input == DType::f64 ? kernels::own_gemm(gemm, operands, workspace_)
                                 : kernels::onednn_gemm(gemm, operands, workspace_);
    return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
}

}  // namespace cleave

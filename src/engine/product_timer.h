// How long matrix products take by themselves, on operands of their own: what a step's products are judged by. f32 and
// bf16 are oneDNN's, f64 our own, as in kernels/matmul.h. The operands lie in an arena, as a step's do.
// Thread rule: one rank's thread; uses its team.
#pragma once

#include <vector>

#include "engine/arena.h"
#include "kernels/gemm.h"

namespace cleave {

class ProductTimer {
  public:
    explicit ProductTimer(std::vector<kernels::Gemm> gemms);

    const std::vector<kernels::Gemm>& gemms() const { return gemms_; }
    // Seconds of one call of gemms()[index], as a mean over `calls`.
    double seconds(std::size_t index, std::int64_t calls) const;

  private:
    std::vector<kernels::Gemm> gemms_;
    Arena arena_;
    // One set, large enough for each: only one product runs at a time.
    void* a_;
    void* b_;
    void* bias_;
    void* y_;
    void* workspace_;
};

}  // namespace cleave

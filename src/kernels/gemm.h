// Two-dimensional matrix products: y[m, n] = a[m, k] b[k, n] (+ bias[n]) (+ y). Either factor may be stored transposed.
// Implementations: oneDNN's (f32, bf16), our own of one row
// (f32, bf16) and of any number (f64).
// Thread rule: run by a rank's thread with its team. oneDNN's primitives are kept per thread, so that looking one up
// takes no lock.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace cleave::kernels {

struct Gemm {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    bool a_transposed = false;  // stored as [k, m]
    bool b_transposed = false;  // stored as [n, k]
    bool bias = false;
    bool accumulate = false;
    DType input = DType::f32;
    DType output = DType::f32;

    friend bool operator==(const Gemm&, const Gemm&) = default;
};

// Products that a kernel consists of: `count` times `gemm`. Not whole where a part of the result is masked away.
struct Product {
    Gemm gemm;
    double count = 1;
};

inline double flops_of(const Gemm& gemm) {
    return 2 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
}

struct GemmOperands {
    const void* a;
    const void* b;
    const void* bias;  // in the inputs' dtype
    void* y;
};

std::int64_t onednn_workspace_bytes(const Gemm& gemm);
void onednn_gemm(const Gemm& gemm, const GemmOperands& operands, void* workspace);

// One row of f32 or bf16, not added to y: ours, at the memory's rate. Bits do not depend on the team.
bool is_row_gemm(const Gemm& gemm);
void row_gemm(const Gemm& gemm, const GemmOperands& operands);

// Our own, for f64. Every element's sum runs over k in ascending order, whatever the team.
std::int64_t own_workspace_bytes(const Gemm& gemm);
void own_gemm(const Gemm& gemm, const GemmOperands& operands, void* workspace);

}  // namespace cleave::kernels

// A matrix product in words, for the benches.
// Thread rule: pure functions.
#pragma once

#include <string>

#include "base/json.h"
#include "kernels/gemm.h"

namespace cleave::cli {

// "768 x 3072 x 1024 tn bf16 -> f32 +=": m x n x k of y[m n] = a[m k] b[k n]; t: that factor is stored transposed.
std::string product_text(const kernels::Gemm& gemm);
Json product_json(const kernels::Gemm& gemm);

}  // namespace cleave::cli

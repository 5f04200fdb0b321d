// `cleave bench matmul M N K`: the rate of one matrix product on one rank with a thread for each core.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace cleave::cli {

struct BenchMatmulOptions {
    std::int64_t m = 0, n = 0, k = 0;
    std::string form;           // nn, nt, tn or tt; empty: nn
    std::vector<DType> dtypes;  // f32 and bf16 through oneDNN, f64 our own
    int rounds = 20;
    bool json = false;
};

int bench_matmul(const BenchMatmulOptions& options, std::FILE* out);

}  // namespace cleave::cli

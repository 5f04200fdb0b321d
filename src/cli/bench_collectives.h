// `cleave bench OP`: measures one collective over a range of message sizes and prints a table or one JSON document.
// Under mpirun the same call runs on MPI, and rank 0 prints.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>

#include "comm/measure.h"

namespace cleave::cli {

struct BenchOptions {
    comm::Operation op = comm::Operation::all_reduce;
    int ranks = 0;  // 0: mpirun's, or 2 without it
    std::optional<comm::TransportKind> transport = {};
    comm::Algorithm algorithm = comm::Algorithm::automatic;
    std::int64_t min_bytes = 4096;
    std::int64_t max_bytes = 64 << 20;  // sizes double from min to max
    std::int64_t elements = 0;          // above 0: this one size instead
    int iterations = 20;
    int warmup = 5;
    DType dtype = DType::f32;
    bool copy_bound = false;   // also measure how fast all ranks copy as much
    bool fingerprints = true;  // off: what the mpi library does without our checks
    bool explain = false;      // name the algorithm and why, and print its step program; measures nothing
    bool json = false;
};

// Returns an exit code: kExitNo if a result was wrong. Throws UserError and RankFailure.
int bench_collective(const BenchOptions& options, std::FILE* out);

}  // namespace cleave::cli

// What a rank says it is doing, so that ranks that disagree find out instead of hanging or mixing data.
// Thread rule: values.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "comm/program.h"

namespace cleave::comm {

struct Fingerprint {
    std::uint64_t hash = 0;  // over everything below
    std::uint64_t sequence = 0;
    std::uint64_t counts_hash = 0;
    std::int64_t elements = 0;  // the sum of the counts
    std::int32_t root = 0;
    Operation operation = Operation::barrier;
    ReduceOp op = ReduceOp::sum;
    DType dtype = DType::u8;
    Algorithm algorithm = Algorithm::direct;
};

// `sequence` numbers the collectives of one group from 0.
Fingerprint fingerprint_of(const Spec& spec, DType dtype, ReduceOp op, std::uint64_t sequence);

// "all_reduce #12 (sum, f32, 1024 elements, direct)"
std::string to_string(const Fingerprint& fingerprint);

// " of ranks 0, 2": the group in which something is done. Of many ranks the first and the last.
std::string of_ranks(std::span<const int> world_ranks);

}  // namespace cleave::comm

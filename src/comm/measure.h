// Measuring collectives on running ranks: time, bandwidths with their formulas, correctness, and the copy bound.
//
// Order, for every message size: warm up; wait for everything; barrier; time `iterations` calls, each waited for; then
// one call more whose every element is checked. A missing wait at the end would under-measure (an asynchronous call
// returns before the work is done); a barrier before the wait would over-measure (early ranks would wait for late ones
// inside the timed part).
//
// Message size S as nccl-tests has it: the whole of the larger buffer of a rank (all ranks' pieces together).
// Thread rule: called by every rank of the communicator with the same arguments.
#pragma once

#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace cleave::comm {

struct MeasureOptions {
    Operation operation = Operation::all_reduce;  // a collective, or send: a ring of messages, each rank to the next
    Algorithm algorithm = Algorithm::automatic;
    DType dtype = DType::f32;
    int iterations = 20;
    int warmup = 5;
    bool copy_bound = false;  // measure it too
};

struct Measurement {
    std::int64_t bytes = 0;     // S
    std::int64_t elements = 0;  // of S
    // Seconds a call, each rank's own: mean, least and most over the ranks.
    double mean = 0, min = 0, max = 0;
    std::int64_t wrong = 0;      // elements that are not what they must be, over all ranks
    double copy_seconds = 0;     // all ranks at once copying what the operation makes each rank read or write
    std::string_view copy_with;  // "memcpy" or "streaming"

    double algorithm_bandwidth() const { return static_cast<double>(bytes) / mean; }  // bytes a second
};

// busbw = algbw x factor: what each rank's link must carry, as nccl-tests define it.
double bus_factor(Operation operation, int ranks);
std::string_view bus_formula(Operation operation);
// The seeds' approximation for many ranks leaves out (n-1)/n: it is n/(n-1) times too large, twice for two ranks.
double approximate_bus_factor(Operation operation);
std::string_view approximate_bus_formula(Operation operation);

// `elements` is rounded up to a multiple of the group's size where the operation cuts it into pieces.
Measurement measure(Communicator& world, const MeasureOptions& options, std::int64_t elements);

}  // namespace cleave::comm

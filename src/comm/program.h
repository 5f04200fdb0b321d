// A step program: what a collective does, as data. An algorithm (comm/algorithm.h) makes it; it is printed, priced and
// executed by both transports. It is the one statement of a collective's bytes.
//
// A program is a list of phases, a phase a list of moves. A move names the rank that executes it, `count` elements at
// each of its sources, and the destinations that all receive the result: the sources combined in the canonical order
// (comm/combine.h) where there are several. Within a phase no element written by one move is touched by another, so a
// rank may start a phase as soon as the ranks whose elements it touches have done what comes before.
//
// Thread rule: a Program is immutable once made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "comm/types.h"

namespace cleave::comm {

// Which collective, on how many ranks, of how many elements. `counts` holds
//   broadcast, reduce, all_reduce: {elements};  barrier: {};
//   scatter, gather, all_gather, reduce_scatter: {elements of each piece} if equal, otherwise one count a rank;
//   all_to_all: {elements of each piece} if equal, otherwise size * size counts, [from * size + to].
struct Spec {
    Operation operation = Operation::barrier;
    Algorithm algorithm = Algorithm::direct;
    int size = 1;
    int root = 0;
    int inner = 0;  // ranks of an inner group (hierarchical only); 0: chosen
    std::vector<std::int64_t> counts;
};

// `scratch` holds partial sums, in the accumulator type (f32 for bf16); `in` and `out` are the caller's.
enum class Buffer : std::uint8_t { in, out, scratch };

struct Slot {
    int rank;
    Buffer buffer;
    std::int64_t offset;  // in elements
};

struct Move {
    int executor;
    std::int64_t count;  // elements
    std::vector<Slot> sources;
    std::vector<Slot> destinations;
};

using Phase = std::vector<Move>;

struct Program {
    Spec spec;
    std::vector<Phase> phases;
    std::int64_t scratch_elements = 0;  // of each rank
    std::int64_t total_elements = 0;    // of all inputs and outputs of all ranks; set by build_program

    // A result is finished (avg divided, bf16 rounded) when it passes from in or scratch into out.
    bool finishes(const Move& move) const;

    // Bytes that cross from one rank to another. A remote source crosses from its rank to the executor, a remote
    // destination from the executor to its rank.
    std::int64_t bytes_on_link(int from, int to, DType dtype) const;
    std::int64_t bytes_sent(int rank, DType dtype) const;
    std::int64_t bytes_received(int rank, DType dtype) const;
    // Bytes of memory that `rank` reads and writes as executor: what a copy bound is taken from.
    std::int64_t bytes_read(int rank, DType dtype) const;
    std::int64_t bytes_written(int rank, DType dtype) const;
};

std::int64_t element_bytes(Buffer buffer, DType dtype);

// For people: one line a move, phases numbered.
std::string to_string(const Program& program);

// --- offsets of pieces -------------------------------------------------------------------------------------------

// count(from, to) of a Spec with equal or unequal pieces; for operations with one list `to` is not used.
std::int64_t piece_count(const Spec& spec, int from, int to = 0);
// Elements of `in` and `out` on `rank` (0 where the operation has none there).
std::int64_t input_elements(const Spec& spec, int rank);
std::int64_t output_elements(const Spec& spec, int rank);
// Checks sizes, root and counts of a caller; throws UserError.
void check(const Spec& spec);

// The share of rank r of n in `elements` that may be cut anywhere: begin of r's slice (r = n gives the end). Cuts fall
// on multiples of 64 elements where every rank still gets some, so that no two ranks write one cache line.
std::int64_t slice_begin(std::int64_t elements, int r, int n);

// --- the order in which a rank may execute it --------------------------------------------------------------------

// `rank` must have reached `progress`: 1 = has issued the operation, 2 + s = has done its step s.
struct Need {
    int rank;
    std::uint32_t progress;
};

struct Step {
    std::vector<const Move*> moves;  // into the program, which must outlive the schedule
    std::vector<Need> needs;
};

// One rank's part of a program.
struct Schedule {
    std::vector<Step> steps;
    std::vector<Need> completion;  // after these nobody touches this rank's buffers any more
    std::vector<int> watchers;     // ranks that have a need of this rank
};

Schedule schedule_of(const Program& program, int rank);

}  // namespace cleave::comm

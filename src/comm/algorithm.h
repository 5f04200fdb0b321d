// The algorithms: from (operation, group size, counts, root) to a step program. Pure functions.
//
//                      follows the     operations
//                      canonical order
//   direct             yes             all: every rank reads from and writes into the others, one phase
//   tree               yes             broadcast, reduce, all_reduce: log2 n phases, the whole message each
//   halving_doubling   yes             reduce_scatter, all_gather, all_reduce: distances 1, 2, 4, ...
//   hierarchical       yes (aligned)   all_reduce: inner reduce_scatter, outer all_reduce, inner all_gather
//   ring               no              reduce_scatter, all_gather, all_reduce: n - 1 phases, neighbours only
//   native             no              the MPI library's own; has no program
#pragma once

#include <string>

#include "comm/program.h"

namespace cleave::comm {

// Throws UserError if the algorithm does not have the operation on that many ranks (the message says which do).
Program build_program(const Spec& spec);

// Program::bytes_sent of `rank`, of the program that build_program makes; of direct without its slots that cross
// between other ranks, which are as many as the square of the ranks.
std::int64_t bytes_sent(const Spec& spec, int rank, DType dtype);

bool supports(Algorithm algorithm, Operation operation, int size, int inner = 0);

// Whether sums by this algorithm have the bits of every other that does (native and ring have orders of their own).
// All data movement without sums is exact in every algorithm.
bool follows_canonical_order(Algorithm algorithm);

// What `automatic` means: only ever an algorithm in the canonical order. `bytes` is the message of one rank.
Algorithm choose_algorithm(Operation operation, int size, std::int64_t bytes, TransportKind transport);
std::string explain_choice(Operation operation, int size, std::int64_t bytes, TransportKind transport);

// The number of ranks of an inner group where the user names none: the largest power of two up to sqrt(size) that
// divides it; 1 if there is none, and then there is no hierarchy.
int default_inner(int size);

// Where the message of an operation is cut into one piece a rank: as the counts say, or anywhere for all_reduce.
class Pieces {
  public:
    explicit Pieces(const Spec& spec);
    int size() const { return static_cast<int>(begin_.size()) - 1; }
    std::int64_t offset(int p) const { return begin_[static_cast<std::size_t>(p)]; }
    std::int64_t count(int p) const { return begin_[static_cast<std::size_t>(p) + 1] - offset(p); }
    std::int64_t total() const { return begin_.back(); }

  private:
    std::vector<std::int64_t> begin_{0};
};

// One function an algorithm; build_program dispatches to them. `about`: of moves that another rank executes, the slots
// of this rank alone.
inline constexpr int kAllRanks = -1;
Program direct_program(const Spec& spec, int about = kAllRanks);
Program tree_program(const Spec& spec);
Program halving_doubling_program(const Spec& spec);
Program ring_program(const Spec& spec);
Program hierarchical_program(const Spec& spec);

}  // namespace cleave::comm

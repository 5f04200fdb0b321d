// The words of the comm room: operations, reductions, algorithms, transports, and their names on the command line.
// Thread rule: values and pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace cleave::comm {

enum class Operation : std::uint8_t {
    broadcast,
    scatter,
    gather,
    reduce,
    all_gather,
    reduce_scatter,
    all_reduce,
    all_to_all,
    barrier,
    send,
    recv
};
inline constexpr int kOperations = 11;
inline constexpr Operation kCollectives[] = {Operation::broadcast,  Operation::scatter,    Operation::gather,
                                             Operation::reduce,     Operation::all_gather, Operation::reduce_scatter,
                                             Operation::all_reduce, Operation::all_to_all, Operation::barrier};

// avg is sum, then one division; integer sums wrap, integer avg truncates. max and min hand a NaN on.
enum class ReduceOp : std::uint8_t { sum, avg, max, min };
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min};

// automatic: the communicator chooses, among those that follow the canonical order of sums only.
// native: the transport library's own collective (mpi only), in an order of its own.
enum class Algorithm : std::uint8_t { automatic, direct, tree, halving_doubling, ring, hierarchical, native };
inline constexpr Algorithm kProgramAlgorithms[] = {Algorithm::direct, Algorithm::tree, Algorithm::halving_doubling,
                                                   Algorithm::ring, Algorithm::hierarchical};

// inproc: ranks are threads of this process. mpi: ranks are MPI processes.
enum class TransportKind : std::uint8_t { inproc, mpi };

constexpr bool reduces(Operation operation) {
    return operation == Operation::reduce || operation == Operation::reduce_scatter ||
           operation == Operation::all_reduce;
}
constexpr bool has_root(Operation operation) {
    return operation == Operation::broadcast || operation == Operation::scatter || operation == Operation::gather ||
           operation == Operation::reduce;
}
// Operations whose message is cut into one piece a rank.
constexpr bool cut_into_pieces(Operation operation) {
    return operation == Operation::scatter || operation == Operation::gather || operation == Operation::all_gather ||
           operation == Operation::reduce_scatter || operation == Operation::all_to_all;
}

std::string_view name_of(Operation operation);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Algorithm algorithm);
std::string_view name_of(TransportKind kind);
// Throw UserError listing the accepted words. '-' and '_' are the same in a name.
Operation operation_from(std::string_view name);
ReduceOp reduce_op_from(std::string_view name);
Algorithm algorithm_from(std::string_view name);
TransportKind transport_from(std::string_view name);

}  // namespace cleave::comm

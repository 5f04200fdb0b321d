#include "comm/types.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "base/error.h"

namespace cleave::comm {
namespace {

// Each list is in the order of its enum.
constexpr std::array<std::string_view, kOperations> kOperationNames = {
    "broadcast",  "scatter",    "gather",  "reduce", "all_gather", "reduce_scatter",
    "all_reduce", "all_to_all", "barrier", "send",   "recv"};
constexpr std::array<std::string_view, 4> kReduceOpNames = {"sum", "avg", "max", "min"};
constexpr std::array<std::string_view, 7> kAlgorithmNames = {"automatic", "direct",       "tree",  "halving_doubling",
                                                             "ring",      "hierarchical", "native"};
constexpr std::array<std::string_view, 2> kTransportNames = {"inproc", "mpi"};

template <class Enum>
Enum from(std::string_view name, std::span<const std::string_view> names, std::string_view what) {
    std::string plain(name);
    std::replace(plain.begin(), plain.end(), '-', '_');
    const auto found = std::find(names.begin(), names.end(), plain);
    if (found == names.end()) throw UserError("unknown {} '{}'; known are {}", what, name, fmt::join(names, ", "));
    return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::string_view name_of(Operation operation) {
    return kOperationNames[static_cast<std::size_t>(operation)];
}
std::string_view name_of(ReduceOp op) {
    return kReduceOpNames[static_cast<std::size_t>(op)];
}
std::string_view name_of(Algorithm algorithm) {
    return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}
std::string_view name_of(TransportKind kind) {
    return kTransportNames[static_cast<std::size_t>(kind)];
}

Operation operation_from(std::string_view name) {
    return from<Operation>(name, kOperationNames, "operation");
}
ReduceOp reduce_op_from(std::string_view name) {
    return from<ReduceOp>(name, kReduceOpNames, "reduction");
}
Algorithm algorithm_from(std::string_view name) {
    return from<Algorithm>(name, kAlgorithmNames, "algorithm");
}
TransportKind transport_from(std::string_view name) {
    return from<TransportKind>(name, kTransportNames, "transport");
}

}  // namespace cleave::comm

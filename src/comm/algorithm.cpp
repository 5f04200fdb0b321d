#include "comm/algorithm.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"
#include "base/words.h"

namespace cleave::comm {
namespace {

bool one_of(Operation operation, std::initializer_list<Operation> list) {
    for (const Operation o : list)
        if (o == operation) return true;
    return false;
}

std::string supported_names(Operation operation, int size) {
    std::string names;
    for (const Algorithm a : kProgramAlgorithms)
        if (supports(a, operation, size)) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(a));
    return names;
}

Program make_program(const Spec& spec) {
    switch (spec.algorithm) {
        case Algorithm::tree: return tree_program(spec);
        case Algorithm::halving_doubling: return halving_doubling_program(spec);
        case Algorithm::ring: return ring_program(spec);
        case Algorithm::hierarchical: return hierarchical_program(spec);
        default: return direct_program(spec);
    }
}

struct Choice {
    Algorithm algorithm;
    const char* reason;
};

Choice choice(Operation operation, int size, std::int64_t bytes, TransportKind transport) {
    if (transport == TransportKind::inproc)
        return {Algorithm::direct, "ranks share memory: one phase, each byte is read and written once"};
    constexpr std::int64_t kSmall = 16 * 1024;
    const bool power = std::has_single_bit(static_cast<unsigned>(size));
    if (size >= 8 && bytes <= kSmall && supports(Algorithm::tree, operation, size))
        return {Algorithm::tree, "a small message on 8 or more ranks: log2 n messages a rank instead of n - 1"};
    if (size >= 8 && power && supports(Algorithm::halving_doubling, operation, size))
        return {Algorithm::halving_doubling, "8 or more ranks, a power of two: log2 n messages, the fewest bytes"};
    return {Algorithm::direct, "few ranks: one phase, the fewest bytes"};
}

}  // namespace

Pieces::Pieces(const Spec& spec) {
    for (int p = 0; p < spec.size; ++p)
        begin_.push_back(spec.operation == Operation::all_reduce ? slice_begin(spec.counts[0], p + 1, spec.size)
                                                                 : begin_.back() + piece_count(spec, p));
}

bool supports(Algorithm algorithm, Operation operation, int size, int inner) {
    using enum Operation;
    switch (algorithm) {
        case Algorithm::direct: return operation != send && operation != recv;
        case Algorithm::tree: return one_of(operation, {broadcast, reduce, all_reduce});
        case Algorithm::halving_doubling:
        case Algorithm::ring: return one_of(operation, {reduce_scatter, all_gather, all_reduce});
        case Algorithm::hierarchical: {
            const int g = inner == 0 ? default_inner(size) : inner;
            return operation == all_reduce && g > 1 && g < size && size % g == 0;
        }
        case Algorithm::automatic:
        case Algorithm::native: return false;
    }
    return false;
}

bool follows_canonical_order(Algorithm algorithm) {
    return algorithm != Algorithm::ring && algorithm != Algorithm::native;
}

int default_inner(int size) {
    int inner = 1;
    for (int g = 2; g * g <= size; g *= 2)
        if (size % g == 0) inner = g;
    return inner;
}

Algorithm choose_algorithm(Operation operation, int size, std::int64_t bytes, TransportKind transport) {
    return choice(operation, size, bytes, transport).algorithm;
}

std::string explain_choice(Operation operation, int size, std::int64_t bytes, TransportKind transport) {
    const Choice c = choice(operation, size, bytes, transport);
    return fmt::format("{} of {} on {} over {}: {}: {}", name_of(operation), counted(bytes, "byte"),
                       counted(size, "rank"), name_of(transport), name_of(c.algorithm), c.reason);
}

namespace {

void check_support(const Spec& spec) {
    check(spec);
    if (!supports(spec.algorithm, spec.operation, spec.size, spec.inner))
        throw UserError("{} has no {} on {}{}; it can be done by {}", name_of(spec.algorithm), name_of(spec.operation),
                        counted(spec.size, "rank"), spec.inner > 0 ? fmt::format(" in groups of {}", spec.inner) : "",
                        supported_names(spec.operation, spec.size));
}

}  // namespace

std::int64_t bytes_sent(const Spec& spec, int rank, DType dtype) {
    check_support(spec);
    const Program program = spec.algorithm == Algorithm::direct ? direct_program(spec, rank) : make_program(spec);
    return program.bytes_sent(rank, dtype);
}

Program build_program(const Spec& spec) {
    check_support(spec);
    Program program = make_program(spec);
    for (int r = 0; r < spec.size; ++r) program.total_elements += input_elements(spec, r) + output_elements(spec, r);
    return program;
}

}  // namespace cleave::comm

// Running a test on ranks: threads of this process, or, when mpirun started the program, MPI processes. One suite
// serves both; under mpirun it runs on mpirun's number of ranks.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "comm/launch.h"

namespace cleave::comm::test {

using std::chrono::milliseconds;

inline TransportKind transport() {
    return under_mpirun() ? TransportKind::mpi : TransportKind::inproc;
}

// The group sizes a test runs on.
std::vector<int> sizes(int smallest = 1);

// Runs f on n ranks; a failure of a rank fails the test. Failures inside f are to be EXPECTs: an ASSERT would leave one
// rank behind.
void on_ranks(int n, const std::function<void(Communicator&)>& f);

// Runs f on n ranks where it must fail, and returns what the launcher threw on this process.
RankFailure failure_of(int n, Duration timeout, const std::function<void(Communicator&)>& f);

// What the processes of a test of killed_test.cpp run under mpirun: rank 2 kills itself in the middle of `what`.
int die_in(const std::string& what);

// Algorithms with a step program for the operation on n ranks.
std::vector<Algorithm> algorithms_for(Operation operation, int n);

// Element i of rank r's input. Floats have many magnitudes, so that another order of sums gives other bits.
template <class T>
T input_value(int rank, std::int64_t i) {
    const RandomStream stream(7, "input", static_cast<std::uint64_t>(rank));
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(stream.bits(static_cast<std::uint64_t>(i)) >> 8);
    } else {
        const double scale =
            std::exp2(static_cast<double>(stream.below(static_cast<std::uint64_t>(i) + (1u << 20), 12)));
        return T(static_cast<accumulator_t<T>>((stream.uniform(static_cast<std::uint64_t>(i)) - 0.5) * scale));
    }
}

template <class T>
std::vector<T> input_of(int rank, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = input_value<T>(rank, i);
    return values;
}

// The reference of every reduction: by recursion over the ranks [first, last), split at the largest power of two below
// their number. Written from the rule's words, not from the library.
template <class T, class A = accumulator_t<T>>
A reference_tree(ReduceOp op, int first, int last, std::int64_t i) {
    if (last - first == 1) return static_cast<A>(input_value<T>(first, i));
    int left = 1;
    while (left * 2 < last - first) left *= 2;
    const A a = reference_tree<T>(op, first, first + left, i);
    const A b = reference_tree<T>(op, first + left, last, i);
    if (op == ReduceOp::max) return a > b ? a : b;
    if (op == ReduceOp::min) return a < b ? a : b;
    if constexpr (std::is_integral_v<A>)
        return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
        return a + b;
}

template <class T>
T reference(ReduceOp op, int ranks, std::int64_t i) {
    using A = accumulator_t<T>;
    A value = reference_tree<T>(op, 0, ranks, i);
    if (op == ReduceOp::avg) value = static_cast<A>(value / static_cast<A>(ranks));
    return T(value);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace cleave::comm::test

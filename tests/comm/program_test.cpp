// Step programs judged by symbolic execution: every element holds the expression it was made of, in brackets.
#include "comm/program.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/error.h"
#include "comm/algorithm.h"
#include "comm/program_cache.h"

namespace cleave::comm {
namespace {

using Place = std::tuple<int, Buffer, std::int64_t>;  // rank, buffer, element

std::string input_name(int rank, std::int64_t i) {
    return "x" + std::to_string(rank) + "." + std::to_string(i);
}

std::string canonical(int first, int last, std::int64_t i) {
    if (last - first == 1) return input_name(first, i);
    int left = 1;
    while (2 * left < last - first) left *= 2;
    return "(" + canonical(first, first + left, i) + "+" + canonical(first + left, last, i) + ")";
}

std::string combined(const std::vector<std::string>& values, std::size_t first, std::size_t last) {
    if (last - first == 1) return values[first];
    std::size_t left = 1;
    while (2 * left < last - first) left *= 2;
    return "(" + combined(values, first, first + left) + "+" + combined(values, first + left, last) + ")";
}

class Symbolic {
  public:
    Symbolic(const Program& program, bool in_place) : program_(program), in_place_(in_place) {
        for (int r = 0; r < program.spec.size; ++r)
            for (std::int64_t i = 0; i < input_elements(program.spec, r); ++i)
                memory_[place({r, Buffer::in, 0}, i)] = input_name(r, i);
    }
    void run() {
        for (const Phase& phase : program_.phases) run(phase);
    }
    const std::string& out(int rank, std::int64_t i) { return memory_[place({rank, Buffer::out, 0}, i)]; }
    std::size_t written(int rank) const { return written_.count(rank) > 0 ? written_.at(rank).size() : 0; }

  private:
    Place place(const Slot& s, std::int64_t i) const {
        return {s.rank, in_place_ && s.buffer == Buffer::in ? Buffer::out : s.buffer, s.offset + i};
    }
    // Moves of a phase may run in any order, so they run from the last to the first, and none may touch what another
    // writes.
    void run(const Phase& phase) {
        std::map<Place, const Move*> touched_by;
        std::map<Place, bool> is_written;
        for (const Move& move : phase)
            for (const auto* slots : {&move.sources, &move.destinations})
                for (const Slot& s : *slots)
                    for (std::int64_t i = 0; i < move.count; ++i) {
                        const bool write = slots == &move.destinations;
                        auto& first = touched_by.try_emplace(place(s, i), &move).first->second;
                        bool& w = is_written[place(s, i)];
                        EXPECT_TRUE(first == &move || (!write && !w)) << to_string(program_);
                        w = w || write;
                    }
        for (auto move = phase.rbegin(); move != phase.rend(); ++move)
            for (std::int64_t i = 0; i < move->count; ++i) {
                std::vector<std::string> values;
                for (const Slot& s : move->sources) {
                    ASSERT_EQ(memory_.count(place(s, i)), 1u) << "reads what nobody wrote\n" << to_string(program_);
                    values.push_back(memory_[place(s, i)]);
                }
                for (const Slot& d : move->destinations) {
                    memory_[place(d, i)] = combined(values, 0, values.size());
                    if (d.buffer == Buffer::out) written_[d.rank][d.offset + i] = true;
                    if (d.buffer == Buffer::scratch) {
                        EXPECT_LT(d.offset + i, program_.scratch_elements);
                    }
                }
            }
    }
    const Program& program_;
    const bool in_place_;
    std::map<Place, std::string> memory_;
    std::map<int, std::map<std::int64_t, bool>> written_;
};

// What element i of rank's output must be; sums in the canonical order.
std::string expected(const Spec& spec, int rank, std::int64_t i) {
    const auto locate = [&](auto count) {  // which piece, and where in it
        int piece = 0;
        while (i >= count(piece)) i -= count(piece++);
        return piece;
    };
    switch (spec.operation) {
        case Operation::broadcast: return input_name(spec.root, i);
        case Operation::reduce:
        case Operation::all_reduce: return canonical(0, spec.size, i);
        case Operation::gather:
        case Operation::all_gather: {
            const int piece = locate([&](int p) { return piece_count(spec, p); });
            return input_name(piece, i);
        }
        case Operation::scatter:
        case Operation::reduce_scatter: {
            std::int64_t before = 0;
            for (int p = 0; p < rank; ++p) before += piece_count(spec, p);
            return spec.operation == Operation::scatter ? input_name(spec.root, before + i)
                                                        : canonical(0, spec.size, before + i);
        }
        case Operation::all_to_all: {
            const int from = locate([&](int p) { return piece_count(spec, p, rank); });
            std::int64_t before = 0;
            for (int d = 0; d < rank; ++d) before += piece_count(spec, from, d);
            return input_name(from, before + i);
        }
        default: return "";
    }
}

std::string sorted_terms(std::string expression) {
    std::string terms;
    std::vector<std::string> names;
    for (const char c : expression + "+") {
        if (c == '(' || c == ')') continue;
        if (c != '+') {
            terms += c;
        } else {
            names.push_back(terms);
            terms.clear();
        }
    }
    std::sort(names.begin(), names.end());
    for (const auto& n : names) terms += n + " ";
    return terms;
}

void judge(const Spec& spec, bool in_place) {
    const Program program = build_program(spec);
    SCOPED_TRACE(to_string(program));
    Symbolic run(program, in_place);
    run.run();
    for (int r = 0; r < spec.size; ++r) {
        const bool root_keeps_its_own = spec.operation == Operation::broadcast && r == spec.root;
        const std::int64_t elements = root_keeps_its_own ? 0 : output_elements(spec, r);
        EXPECT_EQ(run.written(r), static_cast<std::size_t>(elements));
        for (std::int64_t i = 0; i < elements; ++i) {
            if (follows_canonical_order(spec.algorithm))
                ASSERT_EQ(run.out(r, i), expected(spec, r, i)) << "rank " << r << " element " << i;
            else
                ASSERT_EQ(sorted_terms(run.out(r, i)), sorted_terms(expected(spec, r, i)))
                    << "rank " << r << " element " << i;
        }
    }
}

std::vector<std::int64_t> unequal_counts(Operation operation, int n) {
    std::vector<std::int64_t> counts;
    for (int i = 0; i < (operation == Operation::all_to_all ? n * n : n); ++i) counts.push_back((i * 3 + 1) % 4);
    return counts;
}

TEST(Program, EveryAlgorithmOfEveryOperationMakesTheRightElementsInTheRightOrder) {
    for (const Operation operation : kCollectives)
        for (int n = 1; n <= 9; ++n)
            for (const Algorithm a : kProgramAlgorithms) {
                if (!supports(a, operation, n) || operation == Operation::barrier) continue;
                const bool takes_pieces = operation != Operation::broadcast && operation != Operation::reduce &&
                                          operation != Operation::all_reduce;
                for (int root = 0; root < (has_root(operation) ? n : 1); ++root) {
                    for (const std::int64_t count : {0, 1, 3, 11}) judge({operation, a, n, root, 0, {count}}, false);
                    if (takes_pieces) judge({operation, a, n, root, 0, unequal_counts(operation, n)}, false);
                    if (operation == Operation::all_reduce || operation == Operation::reduce)
                        judge({operation, a, n, root, 0, {11}}, true);
                }
            }
}

TEST(Program, HierarchicalTakesAnyAlignedInnerGroup) {
    for (const auto& [n, inner] : {std::pair{4, 2}, {6, 2}, {8, 2}, {8, 4}, {12, 4}, {16, 8}})
        judge({Operation::all_reduce, Algorithm::hierarchical, n, 0, inner, {37}}, true);
    EXPECT_THROW(build_program({Operation::all_reduce, Algorithm::hierarchical, 6, 0, 3, {4}}), UserError);
    EXPECT_THROW(build_program({Operation::all_reduce, Algorithm::hierarchical, 7, 0, 0, {4}}), UserError);
}

// The closed formulas: all_reduce 2(n-1)/n of the message, its halves (n-1)/n each.
TEST(Program, BytesAreTheClosedFormulas) {
    for (int n = 2; n <= 8; ++n) {
        const std::int64_t piece = 64 * 3;
        const std::int64_t total = piece * n;
        for (int r = 0; r < n; ++r) {
            const auto sent = [&](Operation o, Algorithm a, std::int64_t count) {
                const Program p = build_program({o, a, n, 0, 0, {count}});
                return std::pair{p.bytes_sent(r, DType::f32), p.bytes_received(r, DType::f32)};
            };
            const std::pair half{4 * piece * (n - 1), 4 * piece * (n - 1)};
            const std::pair both{2 * half.first, 2 * half.second};
            for (const Algorithm a : {Algorithm::direct, Algorithm::ring}) {
                EXPECT_EQ(sent(Operation::all_reduce, a, total), both);
                EXPECT_EQ(sent(Operation::reduce_scatter, a, piece), half);
                EXPECT_EQ(sent(Operation::all_gather, a, piece), half);
            }
            if ((n & (n - 1)) == 0) {
                EXPECT_EQ(sent(Operation::all_reduce, Algorithm::halving_doubling, total), both);
                EXPECT_EQ(sent(Operation::reduce_scatter, Algorithm::halving_doubling, piece), half);
                EXPECT_EQ(sent(Operation::all_gather, Algorithm::halving_doubling, piece), half);
            }
            EXPECT_EQ(sent(Operation::all_to_all, Algorithm::direct, piece), half);
            EXPECT_EQ(sent(Operation::gather, Algorithm::direct, piece).first, r == 0 ? 0 : 4 * piece);
            EXPECT_EQ(sent(Operation::scatter, Algorithm::direct, piece).second, r == 0 ? 0 : 4 * piece);
            EXPECT_EQ(sent(Operation::broadcast, Algorithm::tree, total).second, r == 0 ? 0 : 4 * total);
        }
    }
}

// Without what crosses between others, and of very many ranks in no time.
TEST(Program, BytesOfOneRankAreThoseOfTheWholeProgram) {
    using enum Operation;
    for (const Operation operation :
         {broadcast, scatter, gather, reduce, all_gather, reduce_scatter, all_reduce, all_to_all, barrier})
        for (const Algorithm algorithm : kProgramAlgorithms)
            for (int n = 1; n <= 6; ++n)
                for (int root = 0; root < n; root += 2) {
                    if (!supports(algorithm, operation, n)) continue;
                    const bool pieces = operation == scatter || operation == gather || operation == all_gather ||
                                        operation == reduce_scatter;
                    Spec spec{operation, algorithm, n, root, 0, {130}};
                    if (pieces)
                        for (int r = 1; r < n; ++r) spec.counts.push_back(r == 2 ? 0 : 64 + r);
                    for (int r = 0; r < n; ++r)
                        EXPECT_EQ(bytes_sent(spec, r, DType::bf16), build_program(spec).bytes_sent(r, DType::bf16))
                            << name_of(operation) << " by " << name_of(algorithm) << " on " << n << ", rank " << r;
                }
    const int many = 1 << 16;
    EXPECT_EQ(bytes_sent({all_reduce, Algorithm::direct, many, 0, 0, {std::int64_t{many} * 64}}, 7, DType::f32),
              std::int64_t{2} * (many - 1) * 64 * 4);
}

TEST(Program, RingUsesLinksBetweenNeighboursOnly) {
    const Program p = build_program({Operation::all_reduce, Algorithm::ring, 5, 0, 0, {320}});
    for (int from = 0; from < 5; ++from)
        for (int to = 0; to < 5; ++to)
            EXPECT_EQ(p.bytes_on_link(from, to, DType::f32), to == (from + 1) % 5 ? 2 * 4 * 64 * 4 : 0);
}

TEST(Program, HierarchicalSendsOneInnerShareOverTheSlowLinks) {
    const std::int64_t count = 64 * 8 * 4;
    const Program p = build_program({Operation::all_reduce, Algorithm::hierarchical, 8, 0, 4, {count}});
    std::int64_t slow = 0;
    for (int from = 0; from < 4; ++from)
        for (int to = 4; to < 8; ++to) slow += p.bytes_on_link(from, to, DType::f32);
    EXPECT_EQ(slow,
              4 * count);  // each of 4 places: half of its quarter as a source, half as a result, twice a quarter / 2
}

TEST(Program, PartialSumsOfBf16AreCountedAsF32) {
    const Program tree = build_program({Operation::reduce, Algorithm::tree, 4, 0, 0, {64}});
    EXPECT_EQ(tree.bytes_sent(1, DType::bf16), 64 * 2);  // an input
    EXPECT_EQ(tree.bytes_sent(2, DType::bf16), 64 * 4);  // a partial sum
}

// Nobody overwrites what another rank has still to read; in and out may be one memory, scratch is another.
TEST(Program, AStepWaitsForThoseWhoReadWhatItOverwrites) {
    const auto step_of_rank_0 = [](Buffer overwritten, std::int64_t at) {
        Program p{{Operation::all_reduce, Algorithm::direct, 2, 0, 0, {8}}, {}, 8, 0};
        p.phases.push_back({{1, 4, {{0, Buffer::in, 0}}, {{1, Buffer::scratch, 0}}}});
        p.phases.push_back({{0, 4, {{0, Buffer::in, 4}}, {{0, overwritten, at}}}});
        return schedule_of(p, 0).steps.at(0).needs;
    };
    const auto waits = step_of_rank_0(Buffer::out, 0);
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(waits[0].rank, 1);
    EXPECT_EQ(waits[0].progress, 2u);  // has done its step 0
    EXPECT_EQ(step_of_rank_0(Buffer::out, 3).size(), 1u);
    EXPECT_TRUE(step_of_rank_0(Buffer::out, 4).empty());
    EXPECT_TRUE(step_of_rank_0(Buffer::scratch, 0).empty());
}

TEST(Program, TheCacheReturnsTheSameForTheSameOnly) {
    ProgramCache cache(0);
    const Spec spec{Operation::all_reduce, Algorithm::hierarchical, 8, 0, 2, {64}};
    const auto kept = cache.get(spec);
    EXPECT_EQ(cache.get(spec), kept);
    Spec other = spec;
    other.inner = 4;
    EXPECT_EQ(cache.get(other)->program.spec.inner, 4);
    other = spec;
    other.counts = {65};
    EXPECT_EQ(cache.get(other)->program.spec.counts, other.counts);
    EXPECT_EQ(cache.get(spec), kept);
}

TEST(Program, IsPrintedForPeople) {
    const Program p = build_program({Operation::all_reduce, Algorithm::direct, 2, 0, 0, {8}});
    EXPECT_EQ(to_string(p),
              "all_reduce by direct on 2 ranks: 1 phase\n"
              "  phase 0, rank 0: combine 0.in[0..4) 1.in[0..4) -> 0.out[0..4) 1.out[0..4)\n"
              "  phase 0, rank 1: combine 0.in[4..8) 1.in[4..8) -> 0.out[4..8) 1.out[4..8)\n");
}

TEST(Program, WrongArgumentsAreUserErrors) {
    EXPECT_THROW(build_program({Operation::gather, Algorithm::direct, 3, 3, 0, {4}}), UserError);
    EXPECT_THROW(build_program({Operation::gather, Algorithm::direct, 3, 0, 0, {4, 4}}), UserError);
    EXPECT_THROW(build_program({Operation::all_reduce, Algorithm::direct, 3, 0, 0, {-1}}), UserError);
    EXPECT_THROW(build_program({Operation::gather, Algorithm::ring, 3, 0, 0, {4}}), UserError);
    EXPECT_THROW(build_program({Operation::gather, Algorithm::native, 3, 0, 0, {4}}), UserError);
}

TEST(Program, AutomaticOnlyChoosesTheCanonicalOrder) {
    for (const Operation operation : kCollectives)
        for (int n = 1; n <= 64; ++n)
            for (const std::int64_t bytes : {0, 4096, 1 << 20, 1 << 30})
                for (const TransportKind t : {TransportKind::inproc, TransportKind::mpi}) {
                    const Algorithm a = choose_algorithm(operation, n, bytes, t);
                    EXPECT_TRUE(follows_canonical_order(a));
                    EXPECT_TRUE(supports(a, operation, n)) << name_of(a) << " " << name_of(operation) << " " << n;
                }
}

}  // namespace
}  // namespace cleave::comm

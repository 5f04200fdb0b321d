// The transition table, executed by a simulator that knows only what each action does on the ranks of one group. Values
// are small integers in f64, so that every comparison is exact.
#include "placement/transition.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <vector>

#include "base/error.h"

namespace cleave {
namespace {

using Kind = Placement::Kind;

constexpr int kRows = 5, kColumns = 7;  // no group size above 1 divides both
const std::vector<Placement> kPlacements{R, I, S(0), S(1), P};

struct Matrix {
    int rows, columns;
    std::vector<double> values;
    Matrix(int r, int c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c), 0.0) {}
    double& at(int i, int j) { return values[static_cast<std::size_t>(i * columns + j)]; }
    double at(int i, int j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
    friend bool operator==(const Matrix&, const Matrix&) = default;
};
using Parts = std::vector<Matrix>;  // by rank

struct Box {
    int row, row_end, column, column_end;
};
Box box(int rank, int n, int dim) {
    if (dim == 0) return {rank * kRows / n, (rank + 1) * kRows / n, 0, kColumns};
    return {0, kRows, rank * kColumns / n, (rank + 1) * kColumns / n};
}
Matrix piece(const Matrix& whole, int rank, int n, int dim) {
    const Box b = box(rank, n, dim);
    Matrix result(b.row_end - b.row, b.column_end - b.column);
    for (int i = b.row; i < b.row_end; ++i)
        for (int j = b.column; j < b.column_end; ++j) result.at(i - b.row, j - b.column) = whole.at(i, j);
    return result;
}
Matrix padded(const Matrix& part, int rank, int n, int dim) {
    const Box b = box(rank, n, dim);
    Matrix result(kRows, kColumns);
    for (int i = b.row; i < b.row_end; ++i)
        for (int j = b.column; j < b.column_end; ++j) result.at(i, j) = part.at(i - b.row, j - b.column);
    return result;
}
Matrix sum(const Parts& group) {
    Matrix total(kRows, kColumns);
    for (const Matrix& term : group)
        for (std::size_t k = 0; k < total.values.size(); ++k) total.values[k] += term.values.at(k);
    return total;
}
Matrix joined(const Parts& group, int dim) {
    Parts terms;
    const int n = static_cast<int>(group.size());
    for (int r = 0; r < n; ++r) terms.push_back(padded(group[static_cast<std::size_t>(r)], r, n, dim));
    return sum(terms);
}

Parts execute(const Transition& transition, const Parts& in) {
    const int n = static_cast<int>(in.size());
    Parts out;
    for (int r = 0; r < n; ++r) {
        const Matrix& own = in[static_cast<std::size_t>(r)];
        switch (transition.action()) {
            case Action::nothing: out.push_back(own); break;
            case Action::slice: out.push_back(piece(own, r, n, transition.to.dim)); break;
            case Action::keep_first: out.push_back(r == 0 ? own : Matrix(kRows, kColumns)); break;
            case Action::zero_pad: out.push_back(padded(own, r, n, transition.from.dim)); break;
            case Action::all_gather: out.push_back(joined(in, transition.from.dim)); break;
            case Action::all_reduce: out.push_back(sum(in)); break;
            case Action::reduce_scatter: out.push_back(piece(sum(in), r, n, transition.to.dim)); break;
            case Action::all_to_all:
                out.push_back(piece(joined(in, transition.from.dim), r, n, transition.to.dim));
                break;
        }
    }
    return out;
}

// The one tensor that the ranks' values stand for; checks that they are what the placement says.
Matrix whole_of(const Parts& group, Placement placement) {
    const int n = static_cast<int>(group.size());
    for (int r = 0; r < n; ++r) {
        const Matrix& own = group[static_cast<std::size_t>(r)];
        const Box b = placement.is(Kind::S) ? box(r, n, placement.dim) : Box{0, kRows, 0, kColumns};
        EXPECT_EQ(own.rows, b.row_end - b.row);
        EXPECT_EQ(own.columns, b.column_end - b.column);
        if (placement.is(Kind::R) || placement.is(Kind::I)) {
            EXPECT_EQ(own, group[0]);
        }
    }
    if (placement.is(Kind::S)) return joined(group, placement.dim);
    return placement.is(Kind::P) ? sum(group) : group[0];
}

Parts random_group(Placement placement, int n, std::mt19937& random) {
    auto matrix = [&] {
        Matrix m(kRows, kColumns);
        for (double& value : m.values) value = static_cast<double>(static_cast<int>(random() % 19) - 9);
        return m;
    };
    const Matrix common = matrix();
    Parts group;
    for (int r = 0; r < n; ++r) {
        if (placement.is(Kind::S))
            group.push_back(piece(common, r, n, placement.dim));
        else
            group.push_back(placement.is(Kind::P) ? matrix() : common);
    }
    return group;
}

// <x, g> of a value in `placement` and a gradient in its dual.
double inner(const Parts& x, const Parts& g, Placement placement) {
    double total = 0;
    for (std::size_t r = 0; r < (placement.is(Kind::I) ? 1 : x.size()); ++r) {
        EXPECT_EQ(x[r].values.size(), g[r].values.size());
        for (std::size_t k = 0; k < x[r].values.size(); ++k) total += x[r].values[k] * g[r].values[k];
    }
    return total;
}

void for_all(const std::function<void(const Transition&, int)>& check) {
    for (int n = 1; n <= 8; ++n)
        for (Placement from : kPlacements)
            for (Placement to : kPlacements) {
                SCOPED_TRACE(to_string(from) + " -> " + to_string(to) + " on " + std::to_string(n));
                check({from, to}, n);
            }
}

TEST(Transition, KeepsTheGlobalTensor) {
    std::mt19937 random(1);
    for_all([&](const Transition& transition, int n) {
        const Parts x = random_group(transition.from, n, random);
        EXPECT_EQ(whole_of(execute(transition, x), transition.to), whole_of(x, transition.from));
    });
}

TEST(Transition, TheDualIsTheAdjoint) {
    std::mt19937 random(2);
    for_all([&](const Transition& transition, int n) {
        const Parts x = random_group(transition.from, n, random);
        const Parts g = random_group(dual(transition.to), n, random);
        const Transition backward = transition.dual();
        EXPECT_EQ(backward.from, dual(transition.to));
        EXPECT_EQ(backward.to, dual(transition.from));
        const Parts dx = execute(backward, g);
        EXPECT_EQ(inner(execute(transition, x), g, transition.to), inner(x, dx, transition.from));
    });
}

TEST(Transition, TheDualOfTheDualIsItself) {
    for_all([](const Transition& transition, int) { EXPECT_EQ(transition.dual().dual(), transition); });
}

TEST(Transition, Table) {
    const std::map<std::string, std::string> table{
        {"R R", "nothing"},    {"R I", "nothing"},    {"R S", "slice"},          {"R P", "keep_first"},
        {"I R", "nothing"},    {"I I", "nothing"},    {"I S", "slice"},          {"I P", "keep_first"},
        {"S R", "all_gather"}, {"S I", "all_gather"}, {"S S", "nothing"},        {"S P", "zero_pad"},
        {"P R", "all_reduce"}, {"P I", "all_reduce"}, {"P S", "reduce_scatter"}, {"P P", "nothing"},
    };
    ASSERT_EQ(table.size(), 16u);
    for (const auto& [pair, expected] : table) {
        auto placement = [](char c) { return c == 'R' ? R : c == 'I' ? I : c == 'P' ? P : S(1); };
        const Transition transition{placement(pair[0]), placement(pair[2])};
        EXPECT_EQ(name_of(transition.action()), expected) << pair;
        const bool collective = expected.find("all_") == 0 || expected == "reduce_scatter";
        EXPECT_EQ(communicates(transition.action()), collective) << pair;
    }
    EXPECT_EQ((Transition{S(0), S(1)}).action(), Action::all_to_all);
    EXPECT_EQ((Transition{S(1), S(0)}).action(), Action::all_to_all);
    EXPECT_EQ((Transition{S(1), S(1, 2)}).action(), Action::all_to_all) << "other units, other pieces";
    EXPECT_TRUE(communicates(Action::all_to_all));
}

// The rows of the design's table: forward, and the backward that follows.
TEST(Transition, BackwardsByName) {
    auto backward = [](Placement from, Placement to) { return Transition{from, to}.dual().action(); };
    EXPECT_EQ(backward(P, R), Action::all_reduce);
    EXPECT_EQ(backward(P, I), Action::nothing);
    EXPECT_EQ(backward(I, R), Action::all_reduce);
    EXPECT_EQ(backward(R, S(0)), Action::zero_pad);
    EXPECT_EQ(backward(S(0), R), Action::reduce_scatter);
    EXPECT_EQ(backward(S(0), I), Action::slice);
    EXPECT_EQ(backward(P, S(0)), Action::all_gather);
    EXPECT_EQ(backward(S(0), S(1)), Action::all_to_all);
    EXPECT_EQ(backward(R, I), Action::keep_first);
}

}  // namespace
}  // namespace cleave

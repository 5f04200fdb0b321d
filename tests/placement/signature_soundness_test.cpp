// What a signature accepts is right: for sums of products (einsums), the ranks compute forward and backward from their
// own pieces only, and the results, combined as the claimed placements and their duals say, equal the global ones.
// Values are small integers in f64, so that every comparison is exact. A rank's value is kept at full size with zeros
// outside the rank's piece.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "placement/signature.h"

namespace cleave {
namespace {

using Kind = Placement::Kind;
using Values = std::vector<double>;
using Group = std::vector<Values>;  // by rank

const std::map<char, int> kExtents{{'k', 4}, {'m', 3}, {'n', 5}};

struct Einsum {
    const char* signature;
    std::vector<std::string> inputs;  // labels
    std::vector<int> terms;           // of each input
    std::string output;
};

Shape shape_of(const std::string& labels) {
    Shape shape;
    for (char label : labels) shape.push_back(kExtents.at(label));
    return shape;
}

std::size_t offset(const std::string& labels, const std::map<char, int>& index) {
    int offset = 0;
    for (char label : labels) offset = offset * kExtents.at(label) + index.at(label);
    return static_cast<std::size_t>(offset);
}

// Calls `visit` with every index over the labels.
void for_indices(const std::string& labels, const std::function<void(const std::map<char, int>&)>& visit) {
    std::map<char, int> index;
    const std::function<void(std::size_t)> choose = [&](std::size_t i) {
        if (i == labels.size()) return visit(index);
        for (int value = 0; value < kExtents.at(labels[i]); ++value) {
            index[labels[i]] = value;
            choose(i + 1);
        }
    };
    choose(0);
}

// The labels over which a term of the sum runs: its factors' and the output's.
std::string labels_of_term(const Einsum& einsum, int term) {
    std::string labels = einsum.output;
    for (std::size_t i = 0; i < einsum.inputs.size(); ++i)
        for (char label : einsum.inputs[i])
            if (einsum.terms[i] == term && labels.find(label) == std::string::npos) labels += label;
    return labels;
}

// The product of the term's factors, `without` one of them.
double product(const Einsum& einsum, int term, const Group& inputs, const std::map<char, int>& index,
               std::size_t without) {
    double value = 1;
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (einsum.terms[i] == term && i != without) value *= inputs[i][offset(einsum.inputs[i], index)];
    return value;
}

Values forward(const Einsum& einsum, const Group& inputs) {
    Values y(static_cast<std::size_t>(shape_of(einsum.output).elements()));
    for (int term = 0; term <= einsum.terms.back(); ++term)
        for_indices(labels_of_term(einsum, term), [&](const auto& index) {
            y[offset(einsum.output, index)] += product(einsum, term, inputs, index, inputs.size());
        });
    return y;
}

Values backward(const Einsum& einsum, const Group& inputs, const Values& dy, std::size_t input) {
    Values dx(inputs[input].size());
    const int term = einsum.terms[input];
    for_indices(labels_of_term(einsum, term), [&](const auto& index) {
        dx[offset(einsum.inputs[input], index)] +=
            dy[offset(einsum.output, index)] * product(einsum, term, inputs, index, input);
    });
    return dx;
}

Values masked(Values values, const std::string& labels, Placement placement, int rank, int n) {
    if (!placement.is(Kind::S)) return values;
    const char label = labels[static_cast<std::size_t>(placement.dim)];
    const int extent = kExtents.at(label);
    for_indices(labels, [&](const auto& index) {
        const int i = index.at(label);
        if (i < rank * extent / n || i >= (rank + 1) * extent / n) values[offset(labels, index)] = 0;
    });
    return values;
}

Values random_values(std::size_t size, std::mt19937& random) {
    Values values(size);
    for (double& value : values) value = static_cast<double>(static_cast<int>(random() % 9) - 4);
    return values;
}

Group random_group(const std::string& labels, Placement placement, int n, std::mt19937& random) {
    const auto size = static_cast<std::size_t>(shape_of(labels).elements());
    const Values common = random_values(size, random);
    Group group;
    for (int r = 0; r < n; ++r)
        group.push_back(placement.is(Kind::P) ? random_values(size, random) : masked(common, labels, placement, r, n));
    return group;
}

// The one tensor that the ranks' values stand for.
Values global(const Group& group, Placement placement) {
    if (placement.is(Kind::R) || placement.is(Kind::I)) {
        for (const Values& values : group) EXPECT_EQ(values, group[0]);
        return group[0];
    }
    Values total(group[0].size());
    for (const Values& values : group)
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += values[i];
    return total;
}

void check(const Einsum& einsum, const std::vector<Placement>& placements, Placement output, int n,
           std::mt19937& random) {
    std::vector<Group> by_input, by_rank(static_cast<std::size_t>(n));
    Group whole;
    for (std::size_t i = 0; i < placements.size(); ++i) {
        by_input.push_back(random_group(einsum.inputs[i], placements[i], n, random));
        whole.push_back(global(by_input[i], placements[i]));
        for (std::size_t r = 0; r < by_rank.size(); ++r) by_rank[r].push_back(by_input[i][r]);
    }
    Group y;
    for (int r = 0; r < n; ++r)
        y.push_back(masked(forward(einsum, by_rank[static_cast<std::size_t>(r)]), einsum.output, output, r, n));
    EXPECT_EQ(global(y, output), forward(einsum, whole));

    const Group dy = random_group(einsum.output, dual(output), n, random);
    const Values whole_dy = global(dy, dual(output));
    for (std::size_t i = 0; i < placements.size(); ++i) {
        Group dx;
        for (int r = 0; r < n; ++r) {
            const auto rank = static_cast<std::size_t>(r);
            dx.push_back(
                masked(backward(einsum, by_rank[rank], dy[rank], i), einsum.inputs[i], dual(placements[i]), r, n));
        }
        EXPECT_EQ(global(dx, dual(placements[i])), backward(einsum, whole, whole_dy, i)) << "gradient of input " << i;
    }
}

// Checks all accepted combinations on n ranks; returns how many there are.
int check_accepted(const Einsum& einsum, int n, std::mt19937& random) {
    const Mesh mesh({{"tp", n}});
    const Signature signature(einsum.signature);
    std::vector<Placement> placements(einsum.inputs.size());
    int count = 0;
    const std::function<void(std::size_t)> choose = [&](std::size_t i) {
        if (i < placements.size()) {
            std::vector<Placement> choices{R, I, P};
            for (std::size_t d = 0; d < einsum.inputs[i].size(); ++d) choices.push_back(S(static_cast<int>(d)));
            for (Placement choice : choices) {
                placements[i] = choice;
                choose(i + 1);
            }
            return;
        }
        std::vector<Shape> shapes;
        std::vector<Layout> layouts;
        std::vector<Signature::Operand> operands;
        for (std::size_t o = 0; o < placements.size(); ++o) {
            shapes.push_back(shape_of(einsum.inputs[o]));
            layouts.push_back(Layout{{0, placements[o]}});
        }
        for (std::size_t o = 0; o < placements.size(); ++o) operands.push_back({&shapes[o], &layouts[o]});
        const auto result = signature.apply(operands, mesh);
        if (!result.refused.empty()) return;
        std::string text = einsum.signature;
        for (Placement placement : placements) text += fmt::format(" {}", to_string(placement));
        SCOPED_TRACE(fmt::format("{} on {} ranks", text, n));
        check(einsum, placements, result.outputs[0].at(0), n, random);
        ++count;
    };
    choose(0);
    return count;
}

TEST(SignatureSoundness, ForwardAndBackwardOfWhatIsAccepted) {
    const std::vector<std::pair<Einsum, int>> cases{
        {{"x[m k] w[k n] + b[n] -> y[m n]", {"mk", "kn", "n"}, {0, 0, 1}, "mn"}, 7},
        {{"x[m k] w[k n] -> y[m n]", {"mk", "kn"}, {0, 0}, "mn"}, 7},
        {{"dy[m n] w[k n] -> dx[m k]", {"mn", "kn"}, {0, 0}, "mk"}, 7},
        {{"x[m k] dy[m n] -> dw[k n]", {"mk", "mn"}, {0, 0}, "kn"}, 7},
        {{"a[m n] + b[m n] -> y[m n]", {"mn", "mn"}, {0, 1}, "mn"}, 5},
        {{"a[m n] b[m n] -> y[m n]", {"mn", "mn"}, {0, 0}, "mn"}, 6},
        {{"a[m n] b[n] c[m] -> y[m n]", {"mn", "n", "m"}, {0, 0, 0}, "mn"}, 7},
        {{"a[m] b[m k] + c[k] d[m] -> y[k]", {"m", "mk", "k", "m"}, {0, 0, 1, 1}, "k"}, 8},
        {{"x[m n] + c[] -> y[n]", {"mn", ""}, {0, 1}, "n"}, 5},
    };
    std::mt19937 random(7);
    for (const auto& [einsum, accepted] : cases)
        for (int n = 1; n <= 4; ++n) EXPECT_EQ(check_accepted(einsum, n, random), accepted) << einsum.signature;
}

}  // namespace
}  // namespace cleave

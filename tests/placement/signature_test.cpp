// Signatures. The main judge is exhaustive: for every combination of placements of the inputs along one axis, what is
// accepted (and gives what) must be exactly the list written here.
#include "placement/signature.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace cleave {
namespace {

using Kind = Placement::Kind;
using Set = std::set<std::string>;
using Shapes = std::vector<Shape>;
using Placements = std::vector<Placement>;
using Layouts = std::vector<Layout>;

constexpr const char* kAffine = "x[m.. k..] w[k.. n..] + b[n..] -> y[m.. n..]";
constexpr const char* kAttention = "~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] -> o[b t! h d!] lse[b h t!]";

Signature::Result apply(const Signature& signature, const Shapes& shapes, const Layouts& layouts, const Mesh& mesh) {
    std::vector<Signature::Operand> operands;
    for (std::size_t i = 0; i < shapes.size(); ++i) operands.push_back({&shapes[i], &layouts[i]});
    return signature.apply(operands, mesh);
}

// The outputs' placements along an axis of n ranks, such as "S(0) P", or the reason of the refusal.
std::string along(const Signature& signature, const Shapes& shapes, const Placements& placements, int n = 2) {
    const Mesh mesh({{"tp", n}});
    Layouts layouts;
    for (Placement placement : placements) layouts.push_back(Layout{{0, placement}});
    const auto result = apply(signature, shapes, layouts, mesh);
    if (!result.refused.empty()) return result.refused;
    std::string text;
    for (const Layout& layout : result.outputs)
        text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(layout.at(0)));
    return text;
}

// Every accepted combination: "R S(1) S(0) -> S(1)".
Set accepted(const Signature& signature, const Shapes& shapes) {
    Set found;
    Placements placements(shapes.size());
    const std::function<void(std::size_t, const std::string&)> choose = [&](std::size_t i, const std::string& text) {
        if (i == shapes.size()) {
            const std::string outputs = along(signature, shapes, placements);
            if (outputs.rfind("along tp: ", 0) != 0) found.insert(fmt::format("{}-> {}", text, outputs));
            return;
        }
        Placements choices{R, I, P};
        for (int d = 0; d < shapes[i].rank(); ++d) choices.push_back(S(d));
        for (Placement choice : choices) {
            placements[i] = choice;
            choose(i + 1, fmt::format("{}{} ", text, to_string(choice)));
        }
    };
    choose(0, "");
    return found;
}

TEST(Signature, MatmulWithBias) {
    EXPECT_EQ(accepted(Signature(kAffine), {{4, 8}, {8, 6}, {6}}),
              (Set{
                  "R R R -> R",
                  "I I I -> I",
                  "S(0) R R -> S(0)",     // rows; the bias is added on each row once
                  "R S(1) S(0) -> S(1)",  // column parallel
                  "S(1) S(0) P -> P",     // row parallel: the bias must be a part of the sum as well
                  "P R P -> P",
                  "R P P -> P",
              }));
}

TEST(Signature, MatmulsOfThreeKinds) {
    EXPECT_EQ(accepted(Signature("x[m.. k..] w[k.. n..] -> y[m.. n..]", {{'k', 1}}), {{2, 4, 8}, {8, 6}}),
              (Set{"R R -> R", "I I -> I", "P R -> P", "R P -> P", "S(0) R -> S(0)", "S(1) R -> S(1)", "S(2) S(0) -> P",
                   "R S(1) -> S(2)"}));
    EXPECT_EQ(
        accepted(Signature("dy[m.. n..] w[k.. n..] -> dx[m.. k..]", {{'n', 1}}), {{4, 6}, {8, 6}}),
        (Set{"R R -> R", "I I -> I", "P R -> P", "R P -> P", "S(0) R -> S(0)", "S(1) S(1) -> P", "R S(0) -> S(1)"}));
    EXPECT_EQ(accepted(Signature("x[m.. k..] dy[m.. n..] -> dw[k.. n..] db[n..]", {{'m', 1}}), {{4, 8}, {4, 6}}),
              (Set{"R R -> R R", "I I -> I I", "P R -> P P", "R P -> P P", "S(0) S(0) -> P P", "S(1) R -> S(0) P",
                   "R S(1) -> S(1) S(0)"}));
}

TEST(Signature, Elementwise) {
    const Shapes two{{4, 6}, {4, 6}};
    EXPECT_EQ(accepted(Signature("a[*] + b[*] -> y[*]"), two),
              (Set{"R R -> R", "I I -> I", "P P -> P", "S(0) S(0) -> S(0)", "S(1) S(1) -> S(1)"}));
    EXPECT_EQ(accepted(Signature("a[*] b[*] -> y[*]"), two),
              (Set{"R R -> R", "I I -> I", "P R -> P", "R P -> P", "S(0) S(0) -> S(0)", "S(1) S(1) -> S(1)"}));
    EXPECT_EQ(accepted(Signature("dy[*] ~x[*] -> dx[*]"), two),
              (Set{"R R -> R", "I I -> I", "P R -> P", "S(0) S(0) -> S(0)", "S(1) S(1) -> S(1)"}));
    EXPECT_EQ(accepted(Signature("~x[*] -> y[*]"), {{4, 6}}),
              (Set{"R -> R", "I -> I", "S(0) -> S(0)", "S(1) -> S(1)"}));
    EXPECT_EQ(accepted(Signature("x[*] -> y[*] sum[]"), {{4}}),
              (Set{"R -> R R", "I -> I I", "P -> P P", "S(0) -> S(0) P"}));
    EXPECT_EQ(accepted(Signature("a[*] b[*] + c[*] -> y[*]"), {{4}, {4}, {4}}),
              (Set{"R R R -> R", "I I I -> I", "P R P -> P", "R P P -> P", "S(0) S(0) S(0) -> S(0)"}));
}

TEST(Signature, LayerNorm) {
    EXPECT_EQ(
        accepted(Signature("~x[r.. c!] ~gain[c!] ~bias[c!] -> y[r.. c!] mean[r..] rstd[r..]"), {{2, 4, 8}, {8}, {8}}),
        (Set{"R R R -> R R R", "I I I -> I I I", "S(0) R R -> S(0) S(0) S(0)", "S(1) R R -> S(1) S(1) S(1)"}));
    EXPECT_EQ(accepted(Signature("dy[r.. c!] ~x[r.. c!] ~gain[c!] ~mean[r..] ~rstd[r..] -> dx[r.. c!]"),
                       {{4, 8}, {4, 8}, {8}, {4}, {4}}),
              (Set{"R R R R R -> R", "I I I I I -> I", "P R R R R -> P", "S(0) S(0) R S(0) S(0) -> S(0)"}));
    EXPECT_EQ(accepted(Signature("dy[r.. c] ~x[r.. c] ~mean[r..] ~rstd[r..] -> dgain[c] dbias[c]"),
                       {{4, 8}, {4, 8}, {4}, {4}}),
              (Set{"R R R R -> R R", "I I I I -> I I", "P R R R -> P P", "S(0) S(0) S(0) S(0) -> P P",
                   "S(1) S(1) R R -> S(0) S(0)"}));
}

TEST(Signature, Attention) {
    EXPECT_EQ(accepted(Signature(kAttention), {{2, 8, 4, 16}, {2, 8, 4, 16}, {2, 8, 4, 16}}),
              (Set{"R R R -> R R", "I I I -> I I", "S(0) S(0) S(0) -> S(0) S(0)", "S(2) S(2) S(2) -> S(2) S(1)"}));
}

TEST(Signature, Embedding) {
    EXPECT_EQ(accepted(Signature("#tokens[r..] table[v c] -> y[r.. c]"), {{2, 8}, {64, 16}}),
              (Set{"R R -> R", "I R -> R", "R I -> I", "I I -> I", "S(0) R -> S(0)", "S(1) R -> S(1)", "R S(0) -> P",
                   "I S(0) -> P", "R S(1) -> S(2)", "I S(1) -> S(2)", "R P -> P", "I P -> P"}));
}

TEST(Signature, CrossEntropy) {
    EXPECT_EQ(accepted(Signature("~logits[r.. v!] #labels[r..] -> loss[] lse[r..]"), {{8, 64}, {8}}),
              (Set{"R R -> R R", "R I -> R R", "I I -> I I", "I R -> I I", "S(0) S(0) -> P S(0)"}));
}

// Without any gradient R and I are one thing; the result says R where an input does.
TEST(Signature, OnlyOperandsWithoutGradient) {
    EXPECT_EQ(accepted(Signature("#a[*] #b[*] -> y[*]"), {{4}, {4}}),
              (Set{"R R -> R", "R I -> R", "I R -> R", "I I -> I", "S(0) S(0) -> S(0)"}));
}

TEST(Signature, RefusalsSayWhy) {
    const Shapes affine{{4, 8}, {8, 6}, {6}};
    EXPECT_EQ(along(Signature(kAffine), affine, {P, R, R}),
              "along tp: a sum of P and R: one term is partial, another whole");
    EXPECT_EQ(along(Signature(kAffine), affine, {S(1), S(0), R}),
              "along tp: a sum of P and R: one term is partial, another whole");
    EXPECT_EQ(along(Signature(kAffine), affine, {P, P, P}), "along tp: a product of two P");
    EXPECT_EQ(along(Signature(kAffine), affine, {P, R, I}), "along tp: b is I where the output is P");
    EXPECT_EQ(along(Signature(kAffine), affine, {R, I, R}),
              "along tp: R and I are mixed: one of them needs a transition first");
    EXPECT_EQ(along(Signature(kAffine), affine, {S(0), R, P}), "along tp: b is P where m is cut");
    EXPECT_EQ(along(Signature(kAffine), affine, {S(0), I, R}), "along tp: w is I where m is cut");
    EXPECT_EQ(along(Signature(kAffine), affine, {S(1), R, R}), "along tp: w is R, but x is S(1), which cuts k");
    EXPECT_EQ(along(Signature(kAffine), affine, {S(1, 2), S(0), P}),
              "along tp: w is S(0), but x is S(1, unit 2), which cuts k");
    EXPECT_EQ(along(Signature("~x[r c!] -> y[r c!]"), {{4, 8}}, {S(1)}),
              "along tp: the kernel works across dim c of x, which is cut");
    EXPECT_EQ(along(Signature("x[r c] -> y[r c!]"), {{4, 8}}, {S(1)}),
              "along tp: the kernel works across dim c of its output, which is cut");
    EXPECT_EQ(along(Signature("~x[*] -> y[*]"), {{4, 8}}, {P}), "along tp: x is P, but the kernel is not linear in it");
    EXPECT_EQ(along(Signature("#x[*] y[*] -> z[*]"), {{4}, {4}}, {P, R}),
              "along tp: x is P, but the kernel is not linear in it");
    EXPECT_EQ(along(Signature("x[m] + c[] -> y[m] total[]"), {{4}, {}}, {S(0), R}),
              "along tp: a term without the cut label, where one output is S and another P");
}

TEST(Signature, UnitsGoWithTheCut) {
    EXPECT_EQ(along(Signature("x[m k] w[k n] -> y[m n]"), {{4, 8}, {8, 6}}, {R, S(1, 3)}), "S(1, unit 3)");
}

TEST(Signature, UnlikeExtentsNeedEqualPieces) {
    auto heads = [](std::int64_t query, std::int64_t key, int n, Placement cut) {
        return along(Signature(kAttention), {{2, 8, query, 16}, {2, 8, key, 16}, {2, 8, key, 16}}, {cut, cut, cut}, n);
    };
    const std::string refused = "along tp: the pieces of q and k along h do not match";
    EXPECT_EQ(heads(8, 2, 2, S(2)), "S(2) S(1)");
    EXPECT_EQ(heads(6, 3, 3, S(2)), "S(2) S(1)");
    EXPECT_EQ(heads(7, 7, 3, S(2)), "S(2) S(1)") << "equal extents are cut alike in any case";
    EXPECT_EQ(heads(6, 3, 2, S(2)), refused);
    EXPECT_EQ(heads(9, 6, 2, S(2)), refused);
    EXPECT_EQ(heads(8, 4, 4, S(2)), "S(2) S(1)");
    EXPECT_EQ(heads(8, 4, 4, S(2, 2)), refused) << "units of two heads: two for four ranks";
    EXPECT_EQ(heads(8, 4, 2, S(0)), "S(0) S(0)") << "another label is cut";
    // By two axes together in four: 12 and 6 divide by each, but 6 not by both.
    const Mesh mesh({{"cp", 2}, {"tp", 2}});
    const Layout both{{0, S(2)}, {1, S(2)}};
    auto nested = [&](std::int64_t query, std::int64_t key) {
        return apply(Signature(kAttention), {{2, 8, query, 16}, {2, 8, key, 16}, {2, 8, key, 16}}, {both, both, both},
                     mesh)
            .refused;
    };
    EXPECT_EQ(nested(8, 4), "");
    EXPECT_EQ(nested(12, 6), "along cp: the pieces of q and k along h do not match");
    // Cuts of other dims do not count: two key heads in two pieces, the batch in two.
    const Layout apart{{0, S(0)}, {1, S(2)}};
    const Shapes shapes{{2, 8, 8, 16}, {2, 8, 2, 16}, {2, 8, 2, 16}};
    EXPECT_EQ(apply(Signature(kAttention), shapes, {apart, apart, apart}, mesh).refused, "");
}

// Fewer key heads than ranks: query heads as (key head, repeat), each with its own sub-axis.
TEST(Signature, RepeatedKeyHeads) {
    Mesh mesh({{"tp", 4}});
    mesh.add_view({"tp"}, {{"tp.kv", 2}, {"tp.rep", 2}});
    const AxisId kv = mesh.axis("tp.kv"), rep = mesh.axis("tp.rep");
    const Layout key{{kv, S(2)}, {rep, R}}, query{{kv, S(2)}, {rep, S(3)}};
    const Signature forward("~q[b t! h g d!] ~k[b s! h d!] ~v[b s! h d!] -> o[b t! h g d!]");
    const Shapes shapes{{2, 8, 2, 4, 16}, {2, 8, 2, 16}, {2, 8, 2, 16}};
    const auto result = apply(forward, shapes, {query, key, key}, mesh);
    EXPECT_EQ(result.refused, "");
    EXPECT_EQ(result.outputs[0], query);
    const Signature backward("do[b t! h g d!] ~q[b t! h g d!] ~k[b s! h d!] ~v[b s! h d!] -> dk[b s! h d!]");
    const auto gradient = apply(backward, {shapes[0], shapes[0], shapes[1], shapes[2]}, {query, query, key, key}, mesh);
    EXPECT_EQ(gradient.refused, "");
    EXPECT_EQ(gradient.outputs[0], key.dual()) << "P over the repeats";
}

// Megatron's pair: the first product's columns and the second product's rows are cut, dp cuts the batch.
TEST(Signature, ColumnThenRowParallel) {
    const Mesh mesh({{"dp", 2}, {"tp", 2}});
    const AxisId dp = 0, tp = 1;
    const Signature product("x[m.. k..] w[k.. n..] -> y[m.. n..]", {{'k', 1}});
    const Layout x{{dp, S(0)}, {tp, R}};
    const auto y = apply(product, {{4, 8, 16}, {16, 64}}, {x, Layout{{dp, R}, {tp, S(1)}}}, mesh);
    ASSERT_EQ(y.refused, "");
    EXPECT_EQ(y.outputs[0], (Layout{{dp, S(0)}, {tp, S(2)}}));
    const auto z = apply(product, {{4, 8, 64}, {64, 16}}, {y.outputs[0], Layout{{dp, R}, {tp, S(0)}}}, mesh);
    ASSERT_EQ(z.refused, "");
    EXPECT_EQ(z.outputs[0], (Layout{{dp, S(0)}, {tp, P}}));
    // The bias is R: it may be added only after the transition P -> R.
    const Signature bias("x[r.. c] + b[c] -> y[r.. c]");
    const Layout whole{{dp, R}, {tp, R}};
    EXPECT_EQ(apply(bias, {{4, 8, 16}, {16}}, {z.outputs[0], whole}, mesh).refused,
              "along tp: a sum of P and R: one term is partial, another whole");
    EXPECT_EQ(apply(bias, {{4, 8, 16}, {16}}, {x, whole}, mesh).outputs[0], x);
}

TEST(Signature, TheOrderOfCutsIsKept) {
    const Mesh mesh({{"dp", 2}, {"tp", 2}});
    const Layout dp_tp{{0, S(0)}, {1, S(0)}}, tp_dp{{1, S(0)}, {0, S(0)}}, apart{{1, S(0)}, {0, S(1)}};
    const Signature add("a[*] + b[*] -> y[*]");
    const Shapes two{{8, 8}, {8, 8}};
    EXPECT_EQ(apply(add, two, {dp_tp, dp_tp}, mesh).outputs[0], dp_tp);
    EXPECT_EQ(apply(add, two, {tp_dp, tp_dp}, mesh).outputs[0], tp_dp);
    EXPECT_EQ(apply(add, two, {dp_tp, tp_dp}, mesh).refused,
              "the axes cut b in another order than the inputs before it");
    // The order matters only among the cuts of one dim.
    EXPECT_EQ(apply(add, two, {apart, Layout{{0, S(1)}, {1, S(0)}}}, mesh).outputs[0], apart);
    // Operands that are not cut name the axes in any order.
    const Signature product("x[m k] w[k n] -> y[m n]");
    const Layout whole{{1, R}, {0, R}};
    EXPECT_EQ(apply(product, two, {dp_tp, whole}, mesh).outputs[0], dp_tp);
    EXPECT_EQ(apply(product, two, {whole, Layout{{0, S(1)}, {1, S(1)}}}, mesh).outputs[0],
              (Layout{{0, S(1)}, {1, S(1)}}));
}

TEST(Signature, WidthsFollowFromTheRanks) {
    // b gives n, then w gives k, then x gives m.
    const Signature affine(kAffine);
    EXPECT_EQ(along(affine, {{2, 8, 16}, {16, 3, 4, 4}, {3, 4, 4}}, {R, S(2), S(1)}), "S(3)");
    EXPECT_EQ(along(affine, {{2, 8, 4, 4}, {4, 4, 32}, {32}}, {S(2), S(0), P}), "P");
    EXPECT_EQ(along(affine, {{2, 8, 16}, {16, 32}, {32}}, {S(1), R, R}), "S(1)");
    EXPECT_EQ(along(affine, {{16}, {16, 32}, {32}}, {R, S(1), S(0)}), "S(0)") << "m stands for no dim";
    // Given beside the text.
    const Signature two("x[m.. k..] w[k.. n..] -> y[m.. n..]", {{'k', 2}});
    EXPECT_EQ(along(two, {{8, 4, 4}, {4, 4, 32}}, {S(2), S(1)}), "P");
    EXPECT_EQ(along(two, {{8, 4, 4}, {4, 4, 32}}, {R, S(2)}), "S(1)");
}

TEST(Signature, RanksThatDoNotFit) {
    EXPECT_EQ(along(Signature("x[m k] w[k n] -> y[m n]"), {{2, 4, 8}, {8, 6}}, {R, R}), "x has rank 3, not 2");
    EXPECT_EQ(along(Signature("a[*] + b[*] -> y[*]"), {{4}, {4, 1}}, {R, R}), "b has rank 2, not 1");
    EXPECT_EQ(along(Signature("x[r.. c d] -> y[r.. c d]"), {{4}}, {R}), "x has rank 1, not 2");
    EXPECT_EQ(along(Signature("x[m.. k..] w[k.. n..] -> y[m.. n..]", {{'k', 2}}), {{8, 4}, {4}}, {R, R}),
              "w has rank 1, not 2");
}

TEST(Signature, Parsing) {
    const Signature signature("~x[r.. c!]   #y[] z[a b] + w[*] ->  out[r.. c!] lse[r..]");
    EXPECT_EQ(signature.input_count(), 4);
    EXPECT_EQ(signature.output_count(), 2);
    EXPECT_DEATH(Signature("x[m]"), "signature 'x\\[m\\]'");
    EXPECT_DEATH(Signature("x[m] ->"), "signature");
    EXPECT_DEATH(Signature("-> y[m]"), "signature");
    EXPECT_DEATH(Signature("x[m] -> y[m] -> z[m]"), "two arrows");
    EXPECT_DEATH(Signature("x[m] + -> y[m]"), "empty term");
    EXPECT_DEATH(Signature("x[m] + + b[m] -> y[m]"), "empty term");
    EXPECT_DEATH(Signature("x -> y[m]"), "operand 'x'");
    EXPECT_DEATH(Signature("[m] -> y[m]"), "operand");
    EXPECT_DEATH(Signature("x[mk] -> y[m]"), "label 'mk'");
    EXPECT_DEATH(Signature("x[k k] -> y[k]"), "names k twice");
    EXPECT_DEATH(Signature("x[m..] w[m] -> y[m]"), "with and without");
    EXPECT_DEATH(Signature("x[m] -> y[m]", {{'m', 2}}), "m is one dim");
    EXPECT_DEATH(Signature("x[m.. k..] w[k.. n..] -> y[m.. n..]"), "do not determine the width of m");
    EXPECT_DEATH(Signature("x[m] -> y[m n..]"), "do not determine the width of n");
    EXPECT_DEATH(along(Signature("x[m] -> y[m]"), {{4}, {4}}, {R, R}), "has 1 inputs, not 2");
    EXPECT_DEATH(along(Signature("x[m] -> y[m]"), {{4}}, {S(1)}), "x is cut along dim 1 of 1");
}

}  // namespace
}  // namespace cleave

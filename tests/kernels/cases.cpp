#include "case_parts.h"

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "reference.h"

namespace cleave::kernels::test {

namespace {

namespace ref = reference;
using Form = MatMul::Form;

constexpr double kIgnore = 3;  // a label that exists, so that the test sees rows left out

Case matmul(const std::string& name, const MatMul& kernel, const Shape& x, const Shape& w, const Shape& b,
            const Shape& y) {
    const int c = kernel.contracted;
    const std::int64_t k = kernel.form == Form::tn ? x.product(0, c) : x.product(x.rank() - c, x.rank());
    const std::int64_t m = x.elements() / k;
    const std::int64_t n = w.elements() / k;
    std::vector<OperandCase> inputs{in(x, "x"), in(w, "w")};
    if (kernel.bias) inputs.push_back(in(b, "b"));
    auto reference = [=, form = kernel.form, accumulate = kernel.accumulate](const Arrays& a, const Arrays& before) {
        Array result = before[0];
        ref::product(
            result, m, n, k, accumulate, a.size() > 2 ? &a[2] : nullptr,
            [&](std::int64_t i, std::int64_t l) { return form == Form::tn ? a[0][l * m + i] : a[0][i * k + l]; },
            [&](std::int64_t l, std::int64_t j) { return form == Form::nt ? a[1][j * k + l] : a[1][l * n + j]; });
        return Arrays{result};
    };
    Case result = make(name, kernel, inputs, {kernel.accumulate ? in(y, "y") : out(y)}, reference);
    result.roundings = 8 + std::sqrt(static_cast<double>(k));
    result.team_changes_bits = true;
    return result;
}

void add_matmuls(std::vector<Case>& cases, bool large) {
    const std::int64_t a = large ? 37 : kBatch, t = large ? 19 : 5, k = large ? 70 : 4, h = large ? 3 : 4,
                       n = large ? 45 : 5;
    cases.push_back(matmul("nn", {Form::nn, 1}, {a, t, k}, {k, n}, {}, {a, t, n}));
    cases.push_back(
        matmul("nn bias, several output dims", {Form::nn, 1, true}, {a, t, k}, {k, h, n}, {h, n}, {a, t, h, n}));
    cases.push_back(
        matmul("nn two contracted, accumulate", {Form::nn, 2, false, true}, {a, h, k}, {h, k, n}, {}, {a, n}));
    cases.push_back(matmul("nt", {Form::nt, 1}, {a, t, k}, {n, k}, {}, {a, t, n}));
    cases.push_back(matmul("nt bias, two contracted", {Form::nt, 2, true}, {a, h, k}, {n, h, k}, {n}, {a, n}));
    cases.push_back(matmul("tn accumulate", {Form::tn, 2, false, true}, {a, t, k}, {a, t, n}, {}, {k, n}));
    if (large) {
        // One row: our own kernel in every dtype, more columns than a block and no whole number of vectors.
        for (const auto& row : {matmul("nn one row", {Form::nn, 1}, {1, 602}, {602, 2101}, {}, {1, 2101}),
                                matmul("nn one row, bias", {Form::nn, 1, true}, {1, 3}, {3, 70}, {70}, {1, 70}),
                                matmul("nt one row", {Form::nt, 1}, {1, 602}, {301, 602}, {}, {1, 301}),
                                matmul("nt one row, bias", {Form::nt, 1, true}, {1, 70}, {19, 70}, {19}, {1, 19})}) {
            cases.push_back(row);
            cases.back().team_changes_bits = false;
        }
        cases.push_back(matmul("nn deep", {Form::nn, 1}, {33, 600}, {600, 65}, {}, {33, 65}));
        cases.push_back(matmul("nt deep", {Form::nt, 1}, {33, 600}, {65, 600}, {}, {33, 65}));
        cases.push_back(matmul("tn one column", {Form::tn, 1}, {300, 20}, {300, 1}, {}, {20, 1}));
    }
    cases.push_back(make(
        "column_sum", ColumnSum(2, true), {in({a, t, h, n}, "y")}, {sums({h, n}, "b")},
        [](const Arrays& x, const Arrays& before) {
            Array b = before[0];
            for (std::int64_t i = 0; i < x[0].size(); ++i) b[i % b.size()] += x[0][i];
            return Arrays{b};
        },
        64));
    cases.push_back(make(
        "column_sum, not accumulated", ColumnSum(1), {in({a, t, n}, "y")}, {out_sums({n})},
        [n](const Arrays& x, const Arrays&) {
            Array b({n});
            for (std::int64_t i = 0; i < x[0].size(); ++i) b[i % n] += x[0][i];
            return Arrays{b};
        },
        64));
}

void add_embeddings(std::vector<Case>& cases, bool large) {
    const std::int64_t b = large ? 7 : kBatch, t = large ? 50 : 5, c = large ? 131 : 5, v = large ? 29 : 6, p = t + 3;
    cases.push_back(make("embedding", Embedding{}, {tokens({b, t}, "tokens", v), in({v, c}, "table")}, {out({b, t, c})},
                         [c](const Arrays& a, const Arrays& before) {
                             Array y = before[0];
                             for (std::int64_t i = 0; i < y.size(); ++i)
                                 y[i] = a[1][static_cast<std::int64_t>(a[0][i / c]) * c + i % c];
                             return Arrays{y};
                         }));
    cases.push_back(make("embedding_backward", EmbeddingBackward{}, {tokens({b, t}, "tokens", v), in({b, t, c}, "dy")},
                         {sums({v, c}, "dtable")}, [c](const Arrays& a, const Arrays& before) {
                             Array y = before[0];
                             for (std::int64_t i = 0; i < a[1].size(); ++i)
                                 y[static_cast<std::int64_t>(a[0][i / c]) * c + i % c] += a[1][i];
                             return Arrays{y};
                         }));
    for (const std::int64_t first : {0, 2}) {
        const std::string from = first == 0 ? "" : " from 2";
        cases.push_back(make("add_positions" + from, AddPositions{first}, {in({b, t, c}, "x"), in({p, c}, "table")},
                             {out({b, t, c})}, [=](const Arrays& a, const Arrays&) {
                                 return Arrays{ref::map(
                                     a[0], [&](std::int64_t i) { return a[0][i] + a[1][first * c + i % (t * c)]; })};
                             }));
        cases.push_back(make("add_positions_backward" + from, AddPositionsBackward{first}, {in({b, t, c}, "dy")},
                             {sums({p, c}, "dtable")}, [=](const Arrays& a, const Arrays& before) {
                                 Array y = before[0];
                                 for (std::int64_t i = 0; i < a[0].size(); ++i) y[first * c + i % (t * c)] += a[0][i];
                                 return Arrays{y};
                             }));
    }
}

void add_rms_norms(std::vector<Case>& cases, const std::string& of, const Shape& x) {
    const Shape rows(std::span(x.begin(), x.end() - 1)), width{x.back()};
    const OperandCase rstd = positive(rows, "rstd");
    cases.push_back(make("rms_norm" + of, RmsNorm(1e-6), {in(x, "x"), in(width, "gain")}, {out(x), out_sums(rows)},
                         [rows](const Arrays& a, const Arrays&) { return ref::rms_norm(a[0], a[1], 1e-6, rows); }));
    cases.push_back(make("rms_norm_backward_input" + of, RmsNormBackwardInput{},
                         {in(x, "dy"), in(x, "x"), in(width, "gain"), rstd}, {out(x)},
                         [](const Arrays& a, const Arrays&) {
                             return Arrays{ref::norm_backward_input(a[0], a[1], a[2], nullptr, a[3])};
                         }));
    cases.push_back(make(
        "rms_norm_backward_weight" + of, RmsNormBackwardWeight{}, {in(x, "dy"), in(x, "x"), rstd},
        {sums(width, "dgain")},
        [](const Arrays& a, const Arrays& before) {
            Arrays y = before;
            ref::norm_backward_weight(a[0], a[1], nullptr, a[2], y[0], nullptr);
            return y;
        },
        64));
}

void add_norms(std::vector<Case>& cases, bool large) {
    const std::int64_t b = large ? 25 : kBatch, t = large ? 9 : 5, c = large ? 203 : 5;
    const Shape x{b, t, c}, rows{b, t}, width{c};
    const OperandCase mean = sums(rows, "mean"), rstd = positive(rows, "rstd");
    cases.push_back(make("layer_norm", LayerNorm(1e-5), {in(x, "x"), in(width, "gain"), in(width, "bias")},
                         {out(x), out_sums(rows), out_sums(rows)}, [rows](const Arrays& a, const Arrays&) {
                             return ref::layer_norm(a[0], a[1], a[2], 1e-5, rows);
                         }));
    cases.push_back(make("layer_norm_backward_input", LayerNormBackwardInput{},
                         {in(x, "dy"), in(x, "x"), in(width, "gain"), mean, rstd}, {out(x)},
                         [](const Arrays& a, const Arrays&) {
                             return Arrays{ref::norm_backward_input(a[0], a[1], a[2], &a[3], a[4])};
                         }));
    cases.push_back(make(
        "layer_norm_backward_weight", LayerNormBackwardWeight{}, {in(x, "dy"), in(x, "x"), mean, rstd},
        {sums(width, "dgain"), sums(width, "dbias")},
        [](const Arrays& a, const Arrays& before) {
            Arrays y = before;
            ref::norm_backward_weight(a[0], a[1], &a[2], a[3], y[0], &y[1]);
            return y;
        },
        64));
    add_rms_norms(cases, "", x);
    // Of each head's channels: every head has the one gain.
    add_rms_norms(cases, " of heads", large ? Shape{3, 5, 4, 44} : Shape{kBatch, 3, 4, 4});
}

void add_elementwise(std::vector<Case>& cases, bool large) {
    const Shape s = large ? Shape{13, 3001} : Shape{kBatch, 5};
    const auto logistic = [](double v) { return 1 / (1 + std::exp(-v)); };
    cases.push_back(make("gelu", Gelu{}, {in(s, "x")}, {out(s)},
                         [](const Arrays& a, const Arrays&) { return Arrays{ref::gelu(a[0])}; }));
    cases.push_back(make("gelu_backward", GeluBackward{}, {in(s, "dy"), in(s, "x")}, {out(s)},
                         [](const Arrays& a, const Arrays&) { return Arrays{ref::gelu_backward(a[0], a[1])}; }));
    cases.push_back(make("relu", Relu{}, {in(s, "x")}, {out(s)}, [](const Arrays& a, const Arrays&) {
        return Arrays{ref::map(a[0], [&](std::int64_t i) { return std::max(a[0][i], 0.0); })};
    }));
    cases.push_back(
        make("relu_backward", ReluBackward{}, {in(s, "dy"), in(s, "x")}, {out(s)}, [](const Arrays& a, const Arrays&) {
            return Arrays{ref::map(a[0], [&](std::int64_t i) { return a[1][i] > 0 ? a[0][i] : 0; })};
        }));
    cases.push_back(
        make("swiglu", SwiGlu{}, {in(s, "gate"), in(s, "up")}, {out(s)}, [=](const Arrays& a, const Arrays&) {
            return Arrays{ref::map(a[0], [&](std::int64_t i) { return a[0][i] * logistic(a[0][i]) * a[1][i]; })};
        }));
    cases.push_back(make("swiglu_backward", SwiGluBackward{}, {in(s, "dy"), in(s, "gate"), in(s, "up")},
                         {out(s), out(s)}, [=](const Arrays& a, const Arrays&) {
                             const auto dgate = [&](std::int64_t i) {
                                 const double l = logistic(a[1][i]);
                                 return a[0][i] * a[2][i] * (l + a[1][i] * l * (1 - l));
                             };
                             const auto dup = [&](std::int64_t i) { return a[0][i] * a[1][i] * logistic(a[1][i]); };
                             return Arrays{ref::map(a[0], dgate), ref::map(a[0], dup)};
                         }));
    cases.push_back(make("add", Add{}, {in(s, "a"), in(s, "b")}, {out(s)}, [](const Arrays& a, const Arrays&) {
        return Arrays{ref::map(a[0], [&](std::int64_t i) { return a[0][i] + a[1][i]; })};
    }));
    cases.push_back(
        make("accumulate", Accumulate{}, {in(s, "x")}, {sums(s, "y")}, [](const Arrays& a, const Arrays& before) {
            return Arrays{ref::map(a[0], [&](std::int64_t i) { return before[0][i] + a[0][i]; })};
        }));
    cases.push_back(make("scale", Scale(-1.75), {in(s, "x")}, {out(s)}, [](const Arrays& a, const Arrays&) {
        return Arrays{ref::map(a[0], [&](std::int64_t i) { return -1.75 * a[0][i]; })};
    }));
    const auto same = [](const Arrays& a, const Arrays&) { return Arrays{a[0]}; };
    cases.push_back(make("cast up", Cast{}, {in(s, "x")}, {out_sums(s)}, same));
    cases.push_back(make("cast down", Cast{}, {sums(s, "x")}, {out(s)}, same));
    cases.push_back(make("fill", Fill(2.5), {in(s, "x")}, {out(s)},
                         [](const Arrays& a, const Arrays&) { return Arrays{Array(a[0].shape, 2.5)}; }));
    cases.push_back(
        make("fill_normal", FillNormal(5, "w", 0.5, 0.25), {in(s, "x")}, {out(s)}, [](const Arrays& a, const Arrays&) {
            const RandomStream random(5, "w");
            return Arrays{ref::map(
                a[0], [&](std::int64_t i) { return 0.25 + 0.5 * random.normal(static_cast<std::uint64_t>(i)); })};
        }));
}

void add_dropout(std::vector<Case>& cases, bool large) {
    const Shape s = large ? Shape{63, 25, 130} : Shape{kBatch, 4, 6};
    constexpr double kDropped = 0.4;
    constexpr std::int64_t kShift = 3;
    const RandomStream stream(5, "dropout", 2);
    // The definition: word i mod 4 of counter i / 4.
    const auto keep = [=](std::int64_t element) {
        std::array<std::uint32_t, RandomStream::kBlockWords> words{};
        const auto i = static_cast<std::uint64_t>(element + kShift * s.product(1, s.rank()));
        stream.block(i / words.size(), words);
        return static_cast<double>(words[i % words.size()]) >= kDropped * 0x1p32;
    };
    const auto mask_of = [=](const Array& x) {
        return ref::map(x, [&](std::int64_t i) { return keep(i) ? 1.0 : 0.0; });
    };
    cases.push_back(
        make("dropout", Dropout(kDropped, stream, kShift), {in(s, "x")}, {out(s)}, [=](const Arrays& a, const Arrays&) {
            const Array mask = mask_of(a[0]);
            return Arrays{
                ref::map(a[0], [&](std::int64_t i) { return mask[i] != 0 ? a[0][i] / (1 - kDropped) : 0.0; })};
        }));
    cases.push_back(make("dropout_mask", DropoutMask(kDropped, stream, kShift), {in(s, "x")}, {{Array(s), Role::mask}},
                         [=](const Arrays& a, const Arrays&) { return Arrays{mask_of(a[0])}; }));
    cases.push_back(make("apply_mask", ApplyMask(1.5), {in(s, "x"), {integers(s, "mask", 2), Role::mask}}, {out(s)},
                         [=](const Arrays& a, const Arrays&) {
                             return Arrays{
                                 ref::map(a[0], [&](std::int64_t i) { return a[1][i] != 0 ? 1.5 * a[0][i] : 0.0; })};
                         }));
}

void add_rotary(std::vector<Case>& cases, bool large) {
    const Shape x = large ? Shape{3, 40, 5, 44} : Shape{kBatch, 5, 4, 4};
    cases.push_back(make("rotary", Rotary(10000.0, false, 2), {in(x, "x")}, {out(x)},
                         [](const Arrays& a, const Arrays&) { return Arrays{ref::rotary(a[0], 10000.0, 1, 2)}; }));
    const Shape groups = large ? Shape{3, 40, 2, 3, 44} : Shape{kBatch, 5, 4, 3, 4};
    cases.push_back(make("rotary of groups", Rotary(10000.0, false, 2), {in(groups, "x")}, {out(groups)},
                         [groups](const Arrays& a, const Arrays&) {
                             Array heads = a[0];
                             heads.shape = {groups[0], groups[1], groups[2] * groups[3], groups[4]};
                             Array y = ref::rotary(heads, 10000.0, 1, 2);
                             y.shape = groups;
                             return Arrays{y};
                         }));
    cases.push_back(make("rotary inverse", Rotary(500.0, true), {in(x, "x")}, {out(x)},
                         [](const Arrays& a, const Arrays&) { return Arrays{ref::rotary(a[0], 500.0, -1, 0)}; }));
}

void add_documents(std::vector<Case>& cases, bool large) {
    const std::int64_t b = kBatch, t = large ? 50 : 5;
    OperandCase first = tokens({b, t}, "first", t);
    for (std::int64_t i = 0; i < first.values.size(); ++i)
        first.values[i] = std::min(first.values[i], static_cast<double>(i % t));
    cases.push_back(make("document_positions", DocumentPositions{}, {first}, {{Array({b, t}), Role::tokens}},
                         [t](const Arrays& a, const Arrays&) {
                             return Arrays{
                                 ref::map(a[0], [&](std::int64_t i) { return static_cast<double>(i % t) - a[0][i]; })};
                         }));
}

// Of classes that are not cut: one piece. Of several: placement_test.
void add_class_pieces(std::vector<Case>& cases, const Shape& logits) {
    const Shape rows(std::span(logits.begin(), logits.end() - 1)), statistics{1, rows[0], rows[1], 2};
    const OperandCase labels = tokens(rows, "labels", logits.back());
    cases.push_back(make("class_statistics", ClassStatistics(static_cast<std::int64_t>(kIgnore)),
                         {in(logits, "logits"), labels}, {out_sums(statistics)},
                         [statistics](const Arrays& a, const Arrays&) {
                             const Array lse = ref::cross_entropy(a[0], a[1], 1, kIgnore)[1];
                             const std::int64_t v = a[0].shape.back();
                             Array y(statistics);
                             for (std::int64_t r = 0; r < lse.size(); ++r) {
                                 y[2 * r] = lse[r];
                                 const auto label = static_cast<std::int64_t>(a[1][r]);
                                 y[2 * r + 1] = a[1][r] == kIgnore ? 0 : a[0][r * v + label];
                             }
                             return Arrays{y};
                         }));
    const Shape pieces{3, rows[0], rows[1], 2};
    cases.push_back(make("cross_entropy_of_pieces", CrossEntropyOfPieces(0.25, static_cast<std::int64_t>(kIgnore)),
                         {sums(pieces, "statistics"), labels}, {out_sums({}), out_sums(rows)},
                         [rows](const Arrays& a, const Arrays&) {
                             Array lse(rows), loss(Shape{});
                             for (std::int64_t r = 0; r < lse.size(); ++r) {
                                 double sum = 0, label = 0;
                                 for (std::int64_t p = 0; p < 3; ++p) {
                                     sum += std::exp(a[0][2 * (p * lse.size() + r)]);
                                     label += a[0][2 * (p * lse.size() + r) + 1];
                                 }
                                 lse[r] = std::log(sum);
                                 if (a[1][r] != kIgnore) loss[0] += 0.25 * (lse[r] - label);
                             }
                             return Arrays{loss, lse};
                         }));
}

void add_losses(std::vector<Case>& cases, bool large) {
    const std::int64_t b = large ? 11 : kBatch, t = large ? 23 : 5, v = large ? 77 : 6;
    const Shape logits{b, t, v}, rows{b, t};
    const auto ignore = static_cast<std::int64_t>(kIgnore);
    cases.push_back(make("cross_entropy", CrossEntropy(0.25, ignore), {in(logits, "logits"), tokens(rows, "labels", v)},
                         {out_sums({}), out_sums(rows)},
                         [](const Arrays& a, const Arrays&) { return ref::cross_entropy(a[0], a[1], 0.25, kIgnore); }));
    for (double z_loss : {0.0, 0.375})
        cases.push_back(
            make(z_loss == 0 ? "cross_entropy_backward" : "cross_entropy_backward with z-loss",
                 CrossEntropyBackward(0.25, ignore, z_loss),
                 {sums({}, "dloss"), in(logits, "logits"), positive(rows, "lse"), tokens(rows, "labels", v)},
                 {out(logits)}, [z_loss](const Arrays& a, const Arrays&) {
                     return Arrays{ref::cross_entropy_backward(a[0][0], a[1], a[2], a[3], 0.25, kIgnore, z_loss)};
                 }));
    add_class_pieces(cases, logits);
    cases.push_back(make("z_loss", ZLoss(0.25, ignore), {positive(rows, "lse"), tokens(rows, "labels", v)},
                         {out_sums({})}, [](const Arrays& a, const Arrays&) {
                             Array z(Shape{});
                             for (std::int64_t r = 0; r < a[0].size(); ++r)
                                 if (a[1][r] != kIgnore) z[0] += 0.25 * a[0][r] * a[0][r];
                             return Arrays{z};
                         }));
}

std::vector<Case> make_cases(bool large) {
    std::vector<Case> cases;
    add_matmuls(cases, large);
    add_embeddings(cases, large);
    add_norms(cases, large);
    add_elementwise(cases, large);
    add_dropout(cases, large);
    add_attention(cases, large);
    add_rotary(cases, large);
    add_documents(cases, large);
    add_losses(cases, large);
    add_optimizers(cases, large);
    return cases;
}

}  // namespace

const std::vector<Case>& all_cases(bool large) {
    static const std::array made{make_cases(false), make_cases(true)};
    return made[large ? 1 : 0];
}

std::vector<Pair> all_pairs() {
    const std::vector<Case>& cases = all_cases(false);
    const auto input = [](std::size_t i) { return Source{Source::input, i}; };
    const auto output = [](std::size_t i) { return Source{Source::output, i}; };
    const Source dy{Source::gradient, 0};
    const auto ignore = static_cast<std::int64_t>(kIgnore);
    std::vector<Pair> pairs{
        {named(cases, "nn"),
         {back(MatMul(Form::nt, 1), {dy, input(1)}, {0}), back(MatMul(Form::tn, 2), {input(0), dy}, {1})}},
        {named(cases, "nn bias, several output dims"),
         {back(MatMul(Form::nt, 2), {dy, input(1)}, {0}), back(MatMul(Form::tn, 2), {input(0), dy}, {1}),
          back(ColumnSum(2), {dy}, {2})}},
        {named(cases, "nt"),
         {back(MatMul(Form::nn, 1), {dy, input(1)}, {0}), back(MatMul(Form::tn, 2), {dy, input(0)}, {1})}},
        {named(cases, "nt bias, two contracted"),
         {back(MatMul(Form::nn, 1), {dy, input(1)}, {0}), back(MatMul(Form::tn, 1), {dy, input(0)}, {1}),
          back(ColumnSum(1), {dy}, {2})}},
        {named(cases, "add"), {back(Accumulate{}, {dy}, {0}), back(Accumulate{}, {dy}, {1})}},
        {named(cases, "cast up"), {back(Cast{}, {dy}, {0})}},
        {named(cases, "embedding"), {back(EmbeddingBackward{}, {input(0), dy}, {1})}},
        {named(cases, "add_positions"), {back(Accumulate{}, {dy}, {0}), back(AddPositionsBackward{}, {dy}, {1})}},
        {named(cases, "layer_norm"),
         {back(LayerNormBackwardInput{}, {dy, input(0), input(1), output(1), output(2)}, {0}),
          back(LayerNormBackwardWeight{}, {dy, input(0), output(1), output(2)}, {1, 2})}},
        {named(cases, "rms_norm"),
         {back(RmsNormBackwardInput{}, {dy, input(0), input(1), output(1)}, {0}),
          back(RmsNormBackwardWeight{}, {dy, input(0), output(1)}, {1})}},
        {named(cases, "rms_norm of heads"),
         {back(RmsNormBackwardInput{}, {dy, input(0), input(1), output(1)}, {0}),
          back(RmsNormBackwardWeight{}, {dy, input(0), output(1)}, {1})}},
        {named(cases, "gelu"), {back(GeluBackward{}, {dy, input(0)}, {0})}},
        {named(cases, "relu"), {back(ReluBackward{}, {dy, input(0)}, {0})}},
        {named(cases, "swiglu"), {back(SwiGluBackward{}, {dy, input(0), input(1)}, {0, 1})}},
        {named(cases, "scale"), {back(Scale(-1.75), {dy}, {0})}},
        {named(cases, "dropout"), {back(Dropout(0.4, RandomStream(5, "dropout", 2), 3), {dy}, {0})}},
        {named(cases, "apply_mask"), {back(ApplyMask(1.5), {dy, input(1)}, {0})}},
        {named(cases, "rotary"), {back(Rotary(10000.0, true, 2), {dy}, {0})}},
        {named(cases, "cross_entropy"),
         {back(CrossEntropyBackward(0.25, ignore), {dy, input(0), output(1), input(1)}, {0})}},
    };
    add_attention_pairs(pairs, cases);
    return pairs;
}

}  // namespace cleave::kernels::test

// The cases of attention: masks, grouped heads, keys before the queries, documents, dropout.
#include "case_parts.h"
#include "kernels/attention.h"
#include "kernels/materialised_attention.h"
#include "reference.h"

namespace cleave::kernels::test {

namespace {

namespace ref = reference;

// Where the documents of each sample begin, for queries that are the last `t` of `s` tokens; sample b's are cut at
// other places than sample b + 1's.
OperandCase documents(std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t length) {
    OperandCase first{Array({b, t}), Role::tokens};
    for (std::int64_t i = 0; i < b * t; ++i) {
        const std::int64_t own = i % t + s - t;
        first.values[i] = static_cast<double>(std::max<std::int64_t>(0, own - (own + 3 * (i / t)) % length));
    }
    return first;
}

struct AttentionCase {
    static constexpr std::int64_t kRowShift = 3;
    std::string name;
    bool causal;
    std::int64_t t, s, h, g, d;
    std::int64_t window = 0;
    std::int64_t document = 0;  // its length
    double dropout = 0;
    bool grouped = false;  // q[b t g h/g d]

    // One of each kind is enough for the attention with its probabilities in memory.
    bool materialised() const {
        const bool chosen = grouped || name == " causal, grouped" || name == " window" || name == " full" ||
                            (document > 0 && window == 0 && t < 10);
        return dropout == 0 && chosen;
    }

    AttentionForm form() const {
        AttentionForm form{.scale = 1 / std::sqrt(static_cast<double>(d)),
                           .causal = causal,
                           .window = window,
                           .documents = document > 0,
                           .grouped = grouped};
        if (dropout > 0) form.dropout = {dropout, RandomStream(5, "probabilities", 2), kRowShift};
        return form;
    }
    Shape q(std::int64_t b) const { return grouped ? Shape{b, t, g, h / g, d} : Shape{b, t, h, d}; }
    Shape lse(std::int64_t b) const { return grouped ? Shape{b, g, h / g, t} : Shape{b, h, t}; }

    // One random word an element of [b h t s], s counted up to a multiple of 64.
    ref::Kept kept() const {
        return [*this](std::int64_t b, std::int64_t head, std::int64_t query, std::int64_t key) {
            if (dropout == 0) return 1.0;
            const std::int64_t row = ((b + kRowShift) * h + head) * t + query;
            const auto index = static_cast<std::uint64_t>(row * ((s + 63) / 64 * 64) + key);
            std::array<std::uint32_t, RandomStream::kBlockWords> words{};
            RandomStream(5, "probabilities", 2).block(index / words.size(), words);
            return words[index % words.size()] < dropout * 0x1p32 ? 0.0 : 1 / (1 - dropout);
        };
    }
    ref::Visible visible(const Array* first) const {
        return [*this, first](std::int64_t b, std::int64_t query, std::int64_t key) {
            const std::int64_t behind = query + s - t - key;
            return (!causal || behind >= 0) && (window == 0 || behind < window) &&
                   (!first || static_cast<double>(key) >= (*first)[b * t + query]);
        };
    }
};

std::vector<AttentionCase> attention_cases(bool large) {
    if (!large)
        return {{" causal", true, 5, 5, 4, 4, 4},
                {" causal, grouped", true, 3, 4, 8, 4, 2},
                {" full", false, 4, 6, 4, 2, 3},
                {" window", true, 5, 6, 4, 4, 4, 2},
                {" documents", true, 5, 5, 4, 4, 4, 0, 3},
                {" documents, window, keys before", true, 4, 6, 4, 4, 2, 2, 3},
                {" in groups", true, 5, 5, 12, 3, 4, 0, 0, 0, true}};
    return {{" causal", true, 75, 75, 6, 2, 24},
            {" full", false, 37, 90, 2, 2, 17},
            {" causal, keys before", true, 3, 70, 2, 1, 16},
            {" causal, long", true, 530, 530, 1, 1, 8},
            {" of one query, window, grouped", true, 1, 201, 6, 2, 20, 130},
            {" of one query, grouped", true, 1, 201, 6, 2, 20},
            {" of one query, documents", true, 1, 201, 2, 2, 70, 0, 90},
            {" window of one", true, 70, 70, 2, 2, 5, 1},
            {" window, keys before", true, 90, 170, 2, 1, 24, 37},
            {" window beyond all keys", true, 67, 67, 2, 1, 9, 1000},
            {" window, long", true, 600, 600, 1, 1, 4, 70},
            {" a document a token", true, 70, 70, 2, 2, 16, 0, 1},
            {" documents", true, 200, 200, 4, 2, 24, 0, 77},
            {" dropout", true, 40, 90, 2, 1, 24, 0, 0, 0.25},
            {" in groups, dropout", true, 40, 40, 6, 2, 24, 0, 0, 0.25, true},
            {" in groups, documents, dropout", true, 70, 70, 8, 2, 16, 0, 30, 0.25, true},
            {" documents, long", true, 600, 600, 1, 1, 4, 0, 140},
            {" documents, window, keys before", true, 130, 190, 2, 1, 33, 50, 66}};
}

// The same numbers with another shape: all heads in one dim, or in the dims of the case.
Array as(const Array& array, const Shape& shape) {
    Array result = array;
    result.shape = shape;
    return result;
}

// Of keys that the queries of one key head see by causal and window, f(b, h, g, t, s).
template <class F>
void each_seen_pair(const AttentionCase& c, std::int64_t b, F&& f) {
    const ref::Visible sees = c.visible(nullptr);
    for (std::int64_t i = 0; i < b * c.h * c.t * c.s; ++i) {
        const std::int64_t sample = i / (c.h * c.t * c.s), h = i / (c.t * c.s) % c.h, t = i / c.s % c.t, s = i % c.s;
        if (sees(sample, t, s)) f(i, sample, h, h / (c.h / c.g), t, s);
    }
}

// The two steps of the attention with its probabilities in memory, and their backwards.
void add_materialised(std::vector<Case>& cases, const AttentionCase& c, std::int64_t b) {
    const Shape q = c.q(b), k{b, c.s, c.g, c.d}, heads{b, c.t, c.h, c.d};
    Shape p = c.lse(b);
    p.push_back(c.s);
    const AttentionForm form = c.form();
    const double scale = form.scale;
    std::vector<OperandCase> forward{in(q, "q"), in(k, "k")};
    OperandCase first = documents(b, c.t, c.s, std::max<std::int64_t>(c.document, 1));
    if (c.document > 0) forward.push_back(first);
    const auto reference = [=](const Array& queries, const Array& keys) {
        return as(
            ref::probabilities(as(queries, heads), keys, c.visible(c.document > 0 ? &first.values : nullptr), scale).p,
            p);
    };
    cases.push_back(make(
        "attention_probabilities" + c.name, AttentionProbabilities(form), forward, {out(p)},
        [=](const Arrays& a, const Arrays&) { return Arrays{reference(a[0], a[1])}; }, 32));
    const OperandCase probabilities{reference(forward[0].values, forward[1].values)};
    // Where row `row` of `rows` of sample n begins, of head `head` of `count`.
    const auto at = [d = c.d](std::int64_t n, std::int64_t row, std::int64_t rows, std::int64_t head,
                              std::int64_t count) { return ((n * rows + row) * count + head) * d; };
    cases.push_back(make(
        "attention_probabilities_backward" + c.name, AttentionProbabilitiesBackward(form),
        {in(p, "dp"), probabilities, in(q, "q"), in(k, "k")}, {out(q), out(k)},
        [=](const Arrays& a, const Arrays&) {
            Array dq(q), dk(k);
            each_seen_pair(
                c, b,
                [&](std::int64_t i, std::int64_t n, std::int64_t h, std::int64_t g, std::int64_t t, std::int64_t s) {
                    double mean = 0;
                    for (std::int64_t other = 0; other < c.s; ++other)
                        mean += a[0][i - s + other] * a[1][i - s + other];
                    const double ds = scale * a[1][i] * (a[0][i] - mean);
                    const std::int64_t query = at(n, t, c.t, h, c.h), key = at(n, s, c.s, g, c.g);
                    for (std::int64_t d = 0; d < c.d; ++d) {
                        dq[query + d] += ds * a[3][key + d];
                        dk[key + d] += ds * a[2][query + d];
                    }
                });
            return Arrays{dq, dk};
        },
        64));
    cases.push_back(make(
        "attention_mix" + c.name, AttentionMix(form), {probabilities, in(k, "v")}, {out(q)},
        [=](const Arrays& a, const Arrays&) {
            Array o(q);
            each_seen_pair(
                c, b,
                [&](std::int64_t i, std::int64_t n, std::int64_t h, std::int64_t g, std::int64_t t, std::int64_t s) {
                    for (std::int64_t d = 0; d < c.d; ++d)
                        o[at(n, t, c.t, h, c.h) + d] += a[0][i] * a[1][at(n, s, c.s, g, c.g) + d];
                });
            return Arrays{o};
        },
        64));
    cases.push_back(make(
        "attention_mix_backward" + c.name, AttentionMixBackward(form), {in(q, "do"), probabilities, in(k, "v")},
        {out(p), out(k)},
        [=](const Arrays& a, const Arrays&) {
            Array dp(p), dv(k);
            each_seen_pair(
                c, b,
                [&](std::int64_t i, std::int64_t n, std::int64_t h, std::int64_t g, std::int64_t t, std::int64_t s) {
                    const std::int64_t query = at(n, t, c.t, h, c.h), key = at(n, s, c.s, g, c.g);
                    for (std::int64_t d = 0; d < c.d; ++d) {
                        dp[i] += a[0][query + d] * a[2][key + d];
                        dv[key + d] += a[1][i] * a[0][query + d];
                    }
                });
            return Arrays{dp, dv};
        },
        64));
}

}  // namespace

void add_attention(std::vector<Case>& cases, bool large) {
    const std::int64_t b = large ? 3 : kBatch;
    for (const AttentionCase& c : attention_cases(large)) {
        const Shape q = c.q(b), k{b, c.s, c.g, c.d}, l = c.lse(b);
        const Shape heads{b, c.t, c.h, c.d}, rows{b, c.h, c.t};
        const double scale = c.form().scale;
        std::vector<OperandCase> forward{in(q, "q"), in(k, "k"), in(k, "v")};
        // lse near its true size, so that probabilities are near theirs.
        OperandCase lse{normal(l, "lse", std::log(static_cast<double>(c.s)), 0.1), Role::accumulator};
        std::vector<OperandCase> backward{in(q, "do"), in(q, "q"), in(k, "k"), in(k, "v"), in(q, "o"), lse};
        if (c.document > 0)
            for (auto* inputs : {&forward, &backward}) inputs->push_back(documents(b, c.t, c.s, c.document));
        cases.push_back(make(
            "attention" + c.name, Attention(c.form()), forward, {out(q), out_sums(l)},
            [=](const Arrays& a, const Arrays&) {
                Arrays y = ref::attention(as(a[0], heads), a[1], a[2], c.visible(c.document > 0 ? &a[3] : nullptr),
                                          scale, c.kept());
                return Arrays{as(y[0], q), as(y[1], l)};
            },
            16));
        cases.back().bf16_roundings = 0.5;
        cases.push_back(make(
            "attention_backward" + c.name, AttentionBackward(c.form()), backward, {out(q), out(k), out(k)},
            [=](const Arrays& a, const Arrays&) {
                const ref::Visible visible = c.visible(c.document > 0 ? &a[6] : nullptr);
                Arrays y = ref::attention_backward(as(a[0], heads), as(a[1], heads), a[2], a[3], as(a[4], heads),
                                                   as(a[5], rows), visible, scale, c.kept());
                return Arrays{as(y[0], q), y[1], y[2]};
            },
            32));
        cases.back().bf16_roundings = 1;
        if (c.materialised()) add_materialised(cases, c, b);
    }
}

void add_attention_pairs(std::vector<Pair>& pairs, const std::vector<Case>& cases) {
    const auto input = [](std::size_t i) { return Source{Source::input, i}; };
    const auto output = [](std::size_t i) { return Source{Source::output, i}; };
    for (const AttentionCase& c : attention_cases(false)) {
        std::vector<Source> inputs{{Source::gradient, 0}, input(0), input(1), input(2), output(0), output(1)};
        if (c.document > 0) inputs.push_back(input(3));
        pairs.push_back({named(cases, "attention" + c.name), {back(AttentionBackward(c.form()), inputs, {0, 1, 2})}});
        if (!c.materialised()) continue;
        pairs.push_back({named(cases, "attention_probabilities" + c.name),
                         {back(AttentionProbabilitiesBackward(c.form()),
                               {{Source::gradient, 0}, output(0), input(0), input(1)}, {0, 1})}});
        pairs.push_back({named(cases, "attention_mix" + c.name),
                         {back(AttentionMixBackward(c.form()), {{Source::gradient, 0}, input(0), input(1)}, {0, 1})}});
    }
}

}  // namespace cleave::kernels::test

// Cases of the updates of parameters and of the norm of gradients.
#include "case_parts.h"
#include "kernels/optimizer.h"
#include "reference.h"

namespace cleave::kernels::test {

namespace {

namespace ref = reference;

double in_bf16(double value) {
    return static_cast<double>(static_cast<float>(bf16(static_cast<float>(value))));
}

// Gradients that move a parameter near 1 not at all, less than bf16 shows, or more.
void add_counting_updates(std::vector<Case>& cases, const Shape& s) {
    OperandCase gradient = sums(s, "g");
    for (std::int64_t i = 0; i < gradient.values.size(); ++i)
        gradient.values[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 0x1p-12 : 0.5;
    OperandCase parameter{Array(s, 1.0), Role::accumulator};
    for (bool copy : {false, true}) {
        const Sgd kernel(0.5, 0, 1, copy, true);
        std::vector<OperandCase> outputs{parameter};
        if (copy) outputs.push_back({Array(s, 1.0), Role::copy});
        outputs.push_back({Array({kUpdateCounts}), Role::norm});
        cases.push_back(make(copy ? "sgd with copy, counting" : "sgd, counting", kernel, {gradient}, outputs,
                             [=](const Arrays& a, const Arrays& before) {
                                 Array updated = before[0];
                                 Array counts({kUpdateCounts});
                                 for (std::int64_t i = 0; i < updated.size(); ++i) {
                                     updated[i] -= 0.5 * a[0][i];
                                     const bool moved = updated[i] != before[0][i];
                                     counts[kUpdatesWaiting] +=
                                         copy && moved && in_bf16(updated[i]) == in_bf16(before[0][i]);
                                 }
                                 Arrays y{updated};
                                 if (copy) y.push_back(updated);
                                 y.push_back(counts);
                                 return y;
                             }));
    }
}

}  // namespace

void add_optimizers(std::vector<Case>& cases, bool large) {
    const Shape s = large ? Shape{9, 5003} : Shape{kBatch, 5};
    OperandCase second = positive(s, "v");
    for (bool copy : {false, true}) {
        const AdamW adamw(1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, 3, copy);
        std::vector<OperandCase> outputs{sums(s, "p"), sums(s, "m"), second};
        if (copy) outputs.push_back({Array(s), Role::copy});
        cases.push_back(make(copy ? "adamw with copy" : "adamw", adamw, {sums(s, "g")}, outputs,
                             [=](const Arrays& a, const Arrays& before) {
                                 Arrays y = ref::adamw(adamw, a[0], before[0], before[1], before[2]);
                                 if (copy) y.push_back(y[0]);
                                 return y;
                             }));
        std::vector<OperandCase> sgd_outputs{sums(s, "p")};
        if (copy) sgd_outputs.push_back({Array(s), Role::copy});
        cases.push_back(make(copy ? "sgd with copy" : "sgd", Sgd(0.1, 0.01, 0.5, copy), {sums(s, "g")}, sgd_outputs,
                             [=](const Arrays& a, const Arrays& before) {
                                 Arrays y{ref::map(a[0], [&](std::int64_t i) {
                                     return before[0][i] - 0.1 * (0.5 * a[0][i] + 0.01 * before[0][i]);
                                 })};
                                 if (copy) y.push_back(y[0]);
                                 return y;
                             }));
    }
    add_counting_updates(cases, s);
    constexpr std::int64_t kBlocks = kBatch;
    cases.push_back(make(
        "squared_norm", SquaredNorm{}, {sums({kBlocks, kNormBlock}, "g")}, {{Array({kBlocks}), Role::norm}},
        [](const Arrays& a, const Arrays&) {
            Array partial({kBlocks});
            for (std::int64_t i = 0; i < a[0].size(); ++i) partial[i / kNormBlock] += a[0][i] * a[0][i];
            return Arrays{partial};
        },
        64));
}

}  // namespace cleave::kernels::test

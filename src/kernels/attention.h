// Scaled dot-product attention without the matrix of scores: online softmax (Milakov, Gimelshein 2018; Dao et al.
// 2022), memory linear in the sequence.
//   o[b t h] = sum over s of p[t s] v[b s g],  p = exp(scale q[b t h] k[b s g] - lse[b h t]),  g = h / (H / G)
//   lse[b h t] = log sum over s of exp(scale q k)
// q has H heads, k and v have G, G divides H (grouped queries). s runs over the keys that query t sees:
//   causal      s <= t + S - T: the last query sees all keys (S >= T)
//   window      s > t + S - T - window as well: `window` keys, the query's own the last (Mistral's sliding window)
//   documents   s >= first[b t] as well: the last input, i32, tells where the query's document begins among the keys.
//   It
//               does not decrease along t, and every query sees its own key: 0 <= first[b t] <= t + S - T
// With `grouped`, q, o and their gradients have the heads that share a key head in a dim of their own, q[b t G H/G d]
// and lse[b G H/G t]: so that G may be cut along one axis, and H/G along another along which k and v are whole. Window
// and documents need causal. Time is in proportion to what is seen: blocks of keys outside are not touched; cost()
// counts the pairs seen, but takes each sample for one document, whose content only run() knows. q, k, v, o and their
// gradients may be strided (the last dim dense) and have one dtype; lse has the accumulator's and is dense, like
// `first`.
#pragma once

#include <optional>

#include "base/random.h"
#include "kernels/kernel.h"

namespace cleave::kernels {

struct AttentionDropout {
    double probability;
    RandomStream stream;
    std::int64_t row_shift;  // as Dropout's
};

struct AttentionForm {
    double scale = 1;
    bool causal = true;
    std::int64_t window = 0;  // 0: all that causal leaves
    bool documents = false;   // there is the input `first`
    bool grouped = false;     // q[b t g r d]
    std::optional<AttentionDropout> dropout{};
};

struct Attention : Kernel {  // q, k, v [, first] -> o, lse
    explicit Attention(const AttentionForm& form_) : form(form_) {}
    AttentionForm form;

    std::string_view name() const override { return "attention"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::vector<Product> products(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AttentionBackward : Kernel {  // do, q, k, v, o, lse [, first] -> dq, dk, dv
    explicit AttentionBackward(const AttentionForm& form_) : form(form_) {}
    AttentionForm form;

    std::string_view name() const override { return "attention_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::vector<Product> products(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

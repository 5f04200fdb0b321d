// Scaled dot-product attention without the matrix of scores: online softmax (Milakov, Gimelshein 2018; Dao et al.
// 2022), memory linear in the sequence.
//   o[b t h] = sum over s of p[t s] v[b s g],  p = exp(scale q[b t h] k[b s g] - lse[b h t]),  g = h / (H / G)
//   lse[b h t] = log sum over s of exp(scale q k)
// q has H heads, k and v have G, G divides H (grouped queries). With `causal` query t sees the keys s <= t + S - T: the
// last query sees all keys (S >= T). q, k, v, o and their gradients may be strided (the last dim dense) and have one
// dtype; lse has the accumulator's and is dense.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct Attention : Declared<"attention", "~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] -> o[b t! h d!] lse[b h t!]"> {
    explicit Attention(bool causal_, double scale_) : causal(causal_), scale(scale_) {}
    bool causal;
    double scale;

    Cost cost(Views inputs, Views outputs) const override;
    std::vector<Product> products(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AttentionBackward
    : Declared<"attention_backward",
               "do[b t! h d!] ~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] ~o[b t! h d!] ~lse[b h t!] -> "
               "dq[b t! h d!] dk[b s! h d!] dv[b s! h d!]"> {
    explicit AttentionBackward(bool causal_, double scale_) : causal(causal_), scale(scale_) {}
    bool causal;
    double scale;

    Cost cost(Views inputs, Views outputs) const override;
    std::vector<Product> products(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

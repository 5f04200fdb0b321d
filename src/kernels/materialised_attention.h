// Scaled dot-product attention with the matrix of probabilities in memory, as Vaswani et al. 2017 write it, in two
// steps between which dropout stands: what attention.h computes without it. For the study of memory (Korthikanti et al.
// 2022) and as a second opinion; it takes t s numbers a head and is not fast.
//   p[b h t s] = exp(scale q[b t h] k[b s g] - lse[b h t]) where query t sees key s, otherwise 0
//   o[b t h]   = sum over s of p[b h t s] v[b s g]
// Operands, masks and `grouped` as in attention.h (p is then [b g r t s]); the form's dropout is not used. p is dense,
// in the dtype of q. Sums over keys are taken in ascending order of a fixed number of lanes, those over queries and
// heads in ascending order.
#pragma once

#include "kernels/attention.h"

namespace cleave::kernels {

struct AttentionProbabilities : Kernel {  // q, k [, first] -> p
    explicit AttentionProbabilities(const AttentionForm& form_) : form(form_) {}
    AttentionForm form;

    std::string_view name() const override { return "attention_probabilities"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AttentionProbabilitiesBackward : Kernel {  // dp, p, q, k -> dq, dk
    explicit AttentionProbabilitiesBackward(const AttentionForm& form_) : form(form_) {}
    AttentionForm form;

    std::string_view name() const override { return "attention_probabilities_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AttentionMix : Kernel {  // p, v -> o
    explicit AttentionMix(const AttentionForm& form_) : form(form_) {}
    AttentionForm form;

    std::string_view name() const override { return "attention_mix"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct AttentionMixBackward : Kernel {  // do, p, v -> dp, dv
    explicit AttentionMixBackward(const AttentionForm& form_) : form(form_) {}
    AttentionForm form;

    std::string_view name() const override { return "attention_mix_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

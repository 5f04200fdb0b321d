// Matrix products. Groups of dims are taken as one: m.., k.. and n.. stand for any number of dims each.
//   Form::nn   y[m n] = x[m k] w[k n] (+ b[n])
//   Form::nt   y[m n] = x[m k] w[n k] (+ b[n])        (the gradient of nn's x: dx = dy w^T)
//   Form::tn   y[k n] = x[m k]^T z[m n]               (the gradient of nn's w: dw = x^T dy)
// Inputs have one dtype; the output has the same, or f32 where the inputs are bf16. `accumulate` adds to the output
// (+=). f32 and bf16 are oneDNN's products: their bits depend on the size of the team. f64 is our own, whose bits do
// not.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct MatMul : Kernel {
    enum class Form { nn, nt, tn };
    // `contracted`: the number of dims summed over (k for nn and nt, m for tn).
    MatMul(Form form_, int contracted_, bool bias_ = false, bool accumulate_ = false)
        : form(form_), contracted(contracted_), bias(bias_), accumulate(accumulate_) {}
    Form form;
    int contracted;
    bool bias;
    bool accumulate;

    std::string_view name() const override { return "matmul"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    std::vector<Product> products(Views inputs, Views outputs) const override;
    std::int64_t workspace_bytes(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y[m.. n..] -> b[n..] (+)= sum over m, in the accumulator's dtype: the gradient of a bias.
// `kept`: the number of dims n.
struct ColumnSum : Kernel {
    explicit ColumnSum(int kept_, bool accumulate_ = false) : kept(kept_), accumulate(accumulate_) {}
    int kept;
    bool accumulate;

    std::string_view name() const override { return "column_sum"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels

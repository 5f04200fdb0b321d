// The matrix products of attention, head by head, as a roofline counts them: 2 forward, and 4 of the 5 backward, since
// the scores, which backward computes again, are counted once. Of each the visible part is counted: with a causal mask
// t x s x d / 2, about.
#include "kernels/attention_mask.h"

namespace cleave::kernels {

namespace {

// Products of one head: queries [t d], keys and values [s d].
struct HeadProducts {
    HeadProducts(const View& q, const View& k)
        : heads(static_cast<double>(q.shape[0] * q.shape[2])), t(q.shape[1]), s(k.shape[1]), d(q.shape[3]) {
        gemm.input = gemm.output = q.dtype;
    }
    Gemm of(std::int64_t m, std::int64_t n, std::int64_t k, bool a_transposed, bool b_transposed) const {
        Gemm product = gemm;
        product.m = m;
        product.n = n;
        product.k = k;
        product.a_transposed = a_transposed;
        product.b_transposed = b_transposed;
        return product;
    }
    Gemm scores() const { return of(t, s, d, false, true); }      // [t d] [s d]^T
    Gemm of_keys() const { return of(t, d, s, false, false); }    // [t s] [s d]
    Gemm of_queries() const { return of(s, d, t, true, false); }  // [t s]^T [t d]
    // `flops`: of so many products, without what is masked.
    double count(double flops, int products) const {
        const double whole = heads * flops_of(scores());
        return whole == 0 ? 0 : heads * flops / (products * whole);
    }

    Gemm gemm;
    double heads;
    std::int64_t t, s, d;
};

}  // namespace

std::vector<Product> Attention::products(Views inputs, Views outputs) const {
    const ForwardHeads heads(form, inputs, outputs);
    const HeadProducts head(heads.inputs[0], heads.inputs[1]);
    const double count = head.count(cost(inputs, outputs).flops, 2);
    return {{head.scores(), count}, {head.of_keys(), count}};
}

std::vector<Product> AttentionBackward::products(Views inputs, Views outputs) const {
    const BackwardHeads heads(form, inputs, outputs);
    const HeadProducts head(heads.inputs[1], heads.inputs[2]);
    const double count = head.count(cost(inputs, outputs).flops, 5);
    return {{head.scores(), count},          // of the probabilities: do v^T
            {head.of_queries(), 2 * count},  // dv = p^T do, dk = ds^T q
            {head.of_keys(), count}};        // dq = ds k
}

}  // namespace cleave::kernels

// Attention with the matrix of probabilities in memory, from oneDNN's products: what the fused kernels are compared
// with. Heads lie apart, [b h t d], which costs the products nothing. Both masks are supported: what is not seen is
// zero. Thread rule: one rank's thread with its team.
#pragma once

#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>

#include "buffer.h"
#include "kernels/attention_mask.h"
#include "kernels/simd_math.h"
#include "kernels/team.h"

namespace cleave::bench {

// y[batch, m, n] = a[batch, m, k] b[batch, k, n], each factor row-major or its transpose.
class BatchedProduct {
  public:
    struct Extents {
        std::int64_t batch, m, n, k;
        bool a_transposed, b_transposed;
    };
    BatchedProduct(const Extents& e, DType input, DType output)
        : engine_(dnnl::engine::kind::cpu, 0),
          stream_(engine_),
          a_(matrix(e.batch, e.m, e.k, e.a_transposed, input)),
          b_(matrix(e.batch, e.k, e.n, e.b_transposed, input)),
          y_(matrix(e.batch, e.m, e.n, false, output)),
          product_(dnnl::matmul::primitive_desc({a_, b_, y_}, engine_)),
          flops_(2 * static_cast<double>(e.batch * e.m) * static_cast<double>(e.n * e.k)) {}

    double flops() const { return flops_; }
    void run(const void* a, const void* b, void* y) {
        product_.execute(stream_, {{DNNL_ARG_SRC, dnnl::memory(a_, engine_, const_cast<void*>(a))},
                                   {DNNL_ARG_WEIGHTS, dnnl::memory(b_, engine_, const_cast<void*>(b))},
                                   {DNNL_ARG_DST, dnnl::memory(y_, engine_, y)}});
        stream_.wait();
    }

  private:
    static dnnl::memory::desc matrix(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed,
                                     DType dtype) {
        const auto type = dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
        const auto area = rows * columns;
        return {{batch, rows, columns},
                type,
                transposed ? dnnl::memory::dims{area, 1, rows} : dnnl::memory::dims{area, columns, 1}};
    }
    dnnl::engine engine_;
    dnnl::stream stream_;
    dnnl::memory::desc a_, b_, y_;
    dnnl::matmul product_;
    double flops_;
};

// Operands as [b h t d] (k, v: [b g s d]), one after the other in memory; o and the gradients in the dtype T.
template <class T>
class MaterialisedAttention {
  public:
    struct Operands {
        const T *q, *k, *v, *doutput;
        T *o, *dq, *dk, *dv;
    };
    MaterialisedAttention(const kernels::AttentionForm& form, const kernels::AttentionShape& shape,
                          const kernels::View* first_visible)
        : form_(form),
          shape_(shape),
          first_visible_(first_visible),
          rows_(shape.batch * shape.heads * shape.queries),
          to_keys_({groups(), rows_ / groups(), shape.keys, shape.depth, false, true}, dtype_of<T>(), DType::f32),
          over_keys_({groups(), rows_ / groups(), shape.depth, shape.keys, false, false}, dtype_of<T>(), dtype_of<T>()),
          over_queries_({groups(), shape.keys, shape.depth, rows_ / groups(), true, false}, dtype_of<T>(),
                        dtype_of<T>()),
          scores_(buffer(matrix_bytes(4))),
          probabilities_(buffer(matrix_bytes(sizeof(T)))),
          dscores_(buffer(matrix_bytes(sizeof(T)))) {}

    // What it holds beside the operands.
    std::int64_t bytes() const { return matrix_bytes(4) + 2 * matrix_bytes(sizeof(T)); }

    void forward(const Operands& x) {
        to_keys_.run(x.q, x.k, scores_.get());
        each_row([this](std::int64_t row, std::int64_t begin, std::int64_t end) { softmax(row, begin, end); });
        over_keys_.run(probabilities_.get(), x.v, x.o);
    }
    void backward(const Operands& x) {
        over_queries_.run(probabilities_.get(), x.doutput, x.dv);
        to_keys_.run(x.doutput, x.v, scores_.get());
        each_row([&](std::int64_t row, std::int64_t begin, std::int64_t end) { softmax_backward(row, begin, end); });
        over_keys_.run(dscores_.get(), x.k, x.dq);
        over_queries_.run(dscores_.get(), x.q, x.dk);
    }
    // The seven products of the fused kernels, over all pairs and without the softmax between them.
    void products(const Operands& x) {
        for (int i = 0; i < 3; ++i) to_keys_.run(x.q, x.k, scores_.get());
        for (int i = 0; i < 2; ++i) over_keys_.run(probabilities_.get(), x.v, x.o);
        for (int i = 0; i < 2; ++i) over_queries_.run(probabilities_.get(), x.doutput, x.dv);
    }
    double product_flops() const { return 3 * to_keys_.flops() + 2 * over_keys_.flops() + 2 * over_queries_.flops(); }

  private:
    std::int64_t groups() const { return shape_.batch * shape_.key_heads; }
    std::int64_t matrix_bytes(std::size_t element) const {
        return rows_ * shape_.keys * static_cast<std::int64_t>(element);
    }

    // Calls f(row, begin, end) for every row [b h t] of the matrix: what its query sees.
    template <class F>
    void each_row(F&& f) {
        kernels::parallel_for(rows_, 16, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t row = first; row < last; ++row) {
                const kernels::KeyMask mask(shape_, first_visible_, row / (shape_.heads * shape_.queries));
                const std::int64_t t = row % shape_.queries;
                f(row, mask.begin(t), mask.end(t));
            }
        });
    }

    void softmax(std::int64_t row, std::int64_t begin, std::int64_t end) {
        namespace simd = kernels::simd;
        float* score = static_cast<float*>(scores_.get()) + row * shape_.keys;
        T* p = static_cast<T*>(probabilities_.get()) + row * shape_.keys;
        const auto scale = static_cast<float>(form_.scale);
        simd::f32x16 top = simd::splat(-std::numeric_limits<float>::infinity());
        simd::for_vectors<float>(begin, end, [&](std::int64_t s, auto count) {
            top = simd::max(top, simd::select_first(simd::load(score + s, count), top, count));
        });
        const float highest = simd::largest(top);
        simd::f32x16 sums{};
        simd::for_vectors<float>(begin, end, [&](std::int64_t s, auto count) {
            const simd::f32x16 e = simd::exp((simd::load(score + s, count) - highest) * scale);
            sums += simd::select_first(e, simd::f32x16{}, count);
            simd::store(score + s, e, count);
        });
        const float factor = 1 / simd::sum(sums);
        simd::for_vectors<float>(begin, end, [&](std::int64_t s, auto count) {
            simd::store(p + s, simd::load(score + s, count) * factor, count);
        });
        clear_rest(p, begin, end);
    }

    void softmax_backward(std::int64_t row, std::int64_t begin, std::int64_t end) {
        namespace simd = kernels::simd;
        const float* dp = static_cast<const float*>(scores_.get()) + row * shape_.keys;
        const T* p = static_cast<const T*>(probabilities_.get()) + row * shape_.keys;
        T* ds = static_cast<T*>(dscores_.get()) + row * shape_.keys;
        const float delta = simd::sum_over<float>(end - begin, [&](std::int64_t s, auto count) {
            return simd::load(p + begin + s, count) * simd::load(dp + begin + s, count);
        });
        const auto scale = static_cast<float>(form_.scale);
        simd::for_vectors<float>(begin, end, [&](std::int64_t s, auto count) {
            simd::store(ds + s, simd::load(p + s, count) * (simd::load(dp + s, count) - delta) * scale, count);
        });
        clear_rest(ds, begin, end);
    }

    void clear_rest(T* row, std::int64_t begin, std::int64_t end) const {
        std::fill(row, row + begin, T{});
        std::fill(row + end, row + shape_.keys, T{});
    }

    kernels::AttentionForm form_;
    kernels::AttentionShape shape_;
    const kernels::View* first_visible_;
    std::int64_t rows_;
    BatchedProduct to_keys_;       // q k^T, do v^T: summed over d
    BatchedProduct over_keys_;     // p v, ds k
    BatchedProduct over_queries_;  // p^T do, ds^T q
    Buffer scores_;                // f32
    Buffer probabilities_;
    Buffer dscores_;
};

}  // namespace cleave::bench

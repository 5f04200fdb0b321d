// What attention's forward and backward share of the problem: its extents, which keys a query sees, and the checks of
// the operands. Thread rule: pure functions.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/attention.h"
#include "kernels/operands.h"

namespace cleave::kernels {

// q[b t h d], k and v[b s g d].
struct AttentionShape {
    AttentionShape(const AttentionForm& form, const View& q, const View& k)
        : batch(q.shape[0]),
          queries(q.shape[1]),
          keys(k.shape[1]),
          heads(q.shape[2]),
          key_heads(k.shape[2]),
          depth(q.shape[3]),
          window(form.window > 0 ? form.window : keys),
          causal(form.causal) {}

    std::int64_t batch, queries, keys, heads, key_heads, depth;
    std::int64_t window;  // at most so many keys does a query see
    bool causal;

    std::int64_t group() const { return heads / key_heads; }

    // Query t sees the keys [begin(t), end(t)), those of other documents excepted.
    std::int64_t end(std::int64_t t) const { return causal ? t + keys - queries + 1 : keys; }
    std::int64_t begin(std::int64_t t) const { return std::max<std::int64_t>(0, end(t) - window); }
    // The most keys that `count` consecutive queries see together.
    std::int64_t most_keys(std::int64_t count) const {
        const std::int64_t last = std::min(count, queries) - 1;
        return std::min(keys, causal && window < keys ? window + last : keys);
    }
    // Pairs of a query and a key that it sees, over all heads.
    double pairs() const {
        const auto most = static_cast<double>(std::min(window, keys));
        const auto all = static_cast<double>(queries);
        // Causal: as long as the window is not full, each query sees one key more than the one before.
        const double missing = causal ? most - static_cast<double>(end(0)) : 0;  // of the first query
        const double growing = std::clamp(missing, 0.0, all);
        return static_cast<double>(batch * heads) * (all * most - growing * missing + growing * (growing - 1) / 2);
    }
};

// Which keys the queries of one sample see. Neither end decreases along t.
class KeyMask {
  public:
    // `first_visible`: first[b t], or null.
    KeyMask(const AttentionShape& shape, const View* first_visible, std::int64_t b)
        : shape_(shape), first_(first_visible ? first_visible->as<std::int32_t>() + b * shape.queries : nullptr) {}

    std::int64_t begin(std::int64_t t) const {
        return first_ ? std::max<std::int64_t>(first_[t], shape_.begin(t)) : shape_.begin(t);
    }
    std::int64_t end(std::int64_t t) const { return shape_.end(t); }

  private:
    const AttentionShape& shape_;
    const std::int32_t* first_;
};

// The operands with all heads in one dim, where the form has them in two.
template <std::size_t Count>
std::array<View, Count> one_dim_of_heads(const AttentionForm& form, Views views, std::size_t lse) {
    CLEAVE_CHECK(views.size() <= Count, "{} operands", views.size());
    std::array<View, Count> result;
    std::copy(views.begin(), views.end(), result.begin());
    if (!form.grouped) return result;
    for (std::size_t i = 0; i < views.size(); ++i) {
        if (i == lse) result[i] = merged(views[i], 1);
        if (views[i].shape.rank() == 5) result[i] = merged(views[i], 2);
    }
    return result;
}
// q, k, v [, first] and o, lse.
struct ForwardHeads {
    ForwardHeads(const AttentionForm& form, Views all_inputs, Views all_outputs)
        : in(one_dim_of_heads<4>(form, all_inputs, 4)),
          out(one_dim_of_heads<2>(form, all_outputs, 1)),
          inputs(in.data(), all_inputs.size()),
          outputs(out.data(), all_outputs.size()) {}
    std::array<View, 4> in;
    std::array<View, 2> out;
    Views inputs, outputs;
};
// do, q, k, v, o, lse [, first] and dq, dk, dv.
struct BackwardHeads {
    BackwardHeads(const AttentionForm& form, Views all_inputs, Views all_outputs)
        : in(one_dim_of_heads<7>(form, all_inputs, 5)),
          out(one_dim_of_heads<3>(form, all_outputs, 3)),
          inputs(in.data(), all_inputs.size()),
          outputs(out.data(), all_outputs.size()) {}
    std::array<View, 7> in;
    std::array<View, 3> out;
    Views inputs, outputs;
};

inline void expect_heads(const View& view, const View& like, DType dtype) {
    expect_shape(view, like.shape);
    CLEAVE_CHECK(view.dtype == dtype && (view.strides[3] == 1 || view.shape[3] == 1), "attention of {} with strides {}",
                 name_of(view.dtype), to_string(view.strides));
}

inline void expect_attention(const AttentionForm& form, const View& q, const View& k, const View& v, const View& lse) {
    CLEAVE_CHECK(q.shape.rank() == 4 && k.shape.rank() == 4 && k.shape[0] == q.shape[0] && k.shape[3] == q.shape[3] &&
                     k.shape[2] > 0 && q.shape[2] % k.shape[2] == 0,
                 "attention of {} to {}", to_string(q.shape), to_string(k.shape));
    CLEAVE_CHECK(!form.causal || k.shape[1] >= q.shape[1], "causal attention of {} queries to {} keys", q.shape[1],
                 k.shape[1]);
    CLEAVE_CHECK(form.causal || (form.window == 0 && !form.documents), "a window or documents without causal");
    CLEAVE_CHECK(form.window >= 0 && form.scale > 0, "window {}, scale {}", form.window, form.scale);
    CLEAVE_CHECK(!form.dropout || (form.dropout->probability >= 0 && form.dropout->probability < 1), "dropout");
    expect_heads(q, q, q.dtype);
    expect_heads(k, k, q.dtype);
    expect_heads(v, k, q.dtype);
    expect(lse, Shape{q.shape[0], q.shape[2], q.shape[1]}, accumulator_of(q.dtype));
}

// first[b t], its values as well.
inline void expect_first_visible(const AttentionShape& shape, const View& first) {
    expect(first, Shape{shape.batch, shape.queries}, DType::i32);
    const auto* values = first.as<std::int32_t>();
    for (std::int64_t i = 0; i < first.elements(); ++i) {
        const std::int64_t t = i % shape.queries;
        CLEAVE_CHECK(values[i] >= (t == 0 ? 0 : values[i - 1]) && values[i] < shape.end(t),
                     "sample {}, query {}: the first visible key is {}", i / shape.queries, t, values[i]);
    }
}

}  // namespace cleave::kernels

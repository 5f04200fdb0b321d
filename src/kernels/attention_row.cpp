#include "kernels/attention_row.h"

#include "kernels/attention_tiles.h"
#include "kernels/simd_math.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

// One head: its query, the keys [begin, begin + count) that it sees, and a scratch of padded(count).
template <class T>
struct RowHead {
    using A = accumulator_t<T>;
    static constexpr std::int64_t kWidth = kLanes<A>;
    const T* query;
    HeadRows<T> keys, values;
    std::int64_t begin, count;
    A scale;
    A* scores;

    // Products of the query with as many keys as a vector has lanes, from key s on; those beyond the last are it again.
    Vec<A> products(std::int64_t s) const {
        const T* rows[kWidth];
        for (std::int64_t r = 0; r < kWidth; ++r) rows[r] = keys.row(begin + std::min(s + r, count - 1));
        Vec<A> sums[kWidth]{};
        for_vectors<A>(0, keys.depth, [&](std::int64_t d, auto lanes) {
            const Vec<A> q = load(query + d, lanes);
            CLEAVE_UNROLL
            for (std::int64_t r = 0; r < kWidth; ++r) sums[r] = fma(q, load(rows[r] + d, lanes), sums[r]);
        });
        transpose<A>(sums);
        CLEAVE_UNROLL
        for (std::int64_t step = kWidth / 2; step > 0; step /= 2)
            for (std::int64_t r = 0; r < step; ++r) sums[r] += sums[r + step];
        return sums[0];
    }

    // Leaves exp(scale (score - highest)) in `scores`; returns their sum and adds up to log-sum-exp.
    A softmax(A* lse) const {
        const Vec<A> none = splat(-std::numeric_limits<A>::infinity());
        Vec<A> top = none;
        for (std::int64_t s = 0; s < count; s += kWidth) {
            const Vec<A> found = select_first(products(s), none, count - s);
            store(scores + s, found);
            top = max(top, found);
        }
        const A highest = largest(top);
        Vec<A> sums{};
        for (std::int64_t s = 0; s < count; s += kWidth) {
            const Vec<A> p = exp((load(scores + s) - highest) * scale);
            store(scores + s, p);
            sums += p;
        }
        const A total = sum(sums);
        *lse = highest * scale + std::log(total);
        return total;
    }

    // The columns [d, d + Vectors * kWidth) of the result.
    template <int Vectors, class Count>
    void add_values(std::int64_t d, A factor, T* output, Count lanes) const {
        Vec<A> sums[Vectors]{};
        for (std::int64_t s = 0; s < count; ++s) {
            const T* row = values.row(begin + s) + d;
            const Vec<A> p = splat(scores[s]);
            CLEAVE_UNROLL
            for (int i = 0; i < Vectors; ++i) sums[i] = fma(p, load(row + i * kWidth, lanes), sums[i]);
        }
        for (int i = 0; i < Vectors; ++i) store(output + d + i * kWidth, sums[i] * factor, lanes);
    }

    void attend(T* output, A* lse) const {
        const A factor = 1 / softmax(lse);
        constexpr int kTogether = 4;
        std::int64_t d = 0;
        for (; d + kTogether * kWidth <= values.depth; d += kTogether * kWidth)
            add_values<kTogether>(d, factor, output, Full<A>{});
        for_vectors<A>(d, values.depth, [&](std::int64_t at, auto lanes) { add_values<1>(at, factor, output, lanes); });
    }
};

}  // namespace

std::int64_t row_attention_workspace(const AttentionShape& shape, DType dtype) {
    return dispatch_float(dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        return team_size() * padded<A>(shape.most_keys(1)) * static_cast<std::int64_t>(sizeof(A));
    });
}

void row_attention(const AttentionForm& form, const AttentionShape& shape, Views inputs, Views outputs,
                   void* workspace) {
    dispatch_float(inputs[0].dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        parallel_tasks(shape.batch * shape.heads, [&](std::int64_t i, std::int64_t worker) {
            const std::int64_t b = i / shape.heads, h = i % shape.heads, g = h / shape.group();
            const KeyMask mask(shape, form.documents ? &inputs[3] : nullptr, b);
            const std::int64_t begin = mask.begin(0);
            const RowHead<T> head{.query = HeadRows<T>(inputs[0], b, h).row(0),
                                  .keys = HeadRows<T>(inputs[1], b, g),
                                  .values = HeadRows<T>(inputs[2], b, g),
                                  .begin = begin,
                                  .count = mask.end(0) - begin,
                                  .scale = static_cast<A>(form.scale),
                                  .scores = static_cast<A*>(workspace) + worker * padded<A>(shape.most_keys(1))};
            head.attend(HeadRows<T>(outputs[0], b, h).row(0), outputs[1].as<A>() + i);
        });
    });
}

}  // namespace cleave::kernels

#include "kernels/attention.h"

#include "kernels/attention_tiles.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

// Queries of one task. Each task packs the keys and values that its queries see, for all heads of its group.
constexpr std::int64_t kTaskQueries = 512;

template <class A>
struct ForwardScratch {
    ForwardScratch(const AttentionShape& shape, void* begin) {
        Scratch scratch(begin);
        keys = scratch.take<A>(shape.depth * padded<A>(shape.keys));
        values = scratch.take<A>(shape.keys * padded<A>(shape.depth));
        queries = scratch.take<A>(kQueryBlock * padded<A>(shape.depth));
        output = scratch.take<A>(kQueryBlock * padded<A>(shape.depth));
        bytes = scratch.used();
    }
    A* keys;     // [d, padded s]
    A* values;   // [s, padded d]
    A* queries;  // [kQueryBlock, padded d], times scale
    A* output;   // [kQueryBlock, padded d], before the division by the sum
    std::int64_t bytes;
};

// The running softmax of a block of queries.
template <class A>
struct Softmax {
    static constexpr std::int64_t kVectors = kKeyBlock / kLanes<A>;
    alignas(64) A scores[kQueryBlock * kKeyBlock];
    A highest[kQueryBlock];
    Vec<A> sums[kQueryBlock];  // lane by lane; added up at the end

    void begin() {
        for (A& h : highest) h = -std::numeric_limits<A>::infinity();
        for (Vec<A>& s : sums) s = Vec<A>{};
    }

    // Turns a row of scores into exp(score - highest) and scales what was summed before to the new highest. Scores from
    // `visible` on are masked; `vectors` of the row are in use.
    void row(std::int64_t r, std::int64_t visible, std::int64_t vectors, A* output, std::int64_t depth) {
        A* row = scores + r * kKeyBlock;
        if (visible < vectors * kLanes<A>)
            std::fill(row + std::max<std::int64_t>(visible, 0), row + vectors * kLanes<A>,
                      -std::numeric_limits<A>::infinity());
        Vec<A> top = load(row);
        for (std::int64_t v = 1; v < vectors; ++v) top = max(top, load(row + v * kLanes<A>));
        const A updated = std::max(highest[r], largest(top));
        if (updated != highest[r]) {
            const Vec<A> factor = exp(splat(highest[r] - updated));
            sums[r] *= factor;
            for (std::int64_t d = 0; d < depth; d += kLanes<A>) store(output + d, load(output + d) * factor);
            highest[r] = updated;
        }
        for (std::int64_t v = 0; v < vectors; ++v) {
            const Vec<A> p = exp(load(row + v * kLanes<A>) - updated);
            store(row + v * kLanes<A>, p);
            sums[r] += p;
        }
    }
};

// One block of queries [t, t + rows) of one head against all keys that it sees.
template <class T, class A = accumulator_t<T>>
void attend(const AttentionShape& shape, A scale, const ForwardScratch<A>& scratch, const HeadRows<T>& q,
            const HeadRows<T>& o, A* lse, std::int64_t t, std::int64_t rows) {
    const std::int64_t depth = padded<A>(shape.depth);
    Softmax<A> softmax;
    softmax.begin();
    pack_rows(q, t, rows, scale, scratch.queries);
    std::fill_n(scratch.output, rows * depth, A{});
    const std::int64_t seen = shape.visible(t + rows - 1);
    for (std::int64_t s = 0; s < seen; s += kKeyBlock) {
        const std::int64_t keys = std::min(kKeyBlock, seen - s);
        const std::int64_t vectors = padded<A>(keys) / kLanes<A>;
        tile_product<A>({scratch.queries, depth, 1}, scratch.keys + s, padded<A>(shape.keys), softmax.scores, kKeyBlock,
                        rows, vectors, shape.depth, false);
        for (std::int64_t r = 0; r < rows; ++r)
            softmax.row(r, shape.visible(t + r) - s, vectors, scratch.output + r * depth, depth);
        tile_product<A>({softmax.scores, kKeyBlock, 1}, scratch.values + s * depth, depth, scratch.output, depth, rows,
                        depth / kLanes<A>, keys, true);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
        const A total = sum(softmax.sums[r]);
        lse[t + r] = softmax.highest[r] + std::log(total);
        for_vectors<A>(0, shape.depth, [&](std::int64_t d, auto count) {
            store(o.row(t + r) + d, load(scratch.output + r * depth + d) * (1 / total), count);
        });
    }
}

}  // namespace

const Signature& Attention::signature() const {
    static const Signature signature("~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] -> o[b t! h d!] lse[b h t!]");
    return signature;
}

Cost Attention::cost(Views inputs, Views outputs) const {
    const AttentionShape shape(inputs[0], inputs[1], causal);
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 4 * static_cast<double>(shape.depth) * shape.pairs();
    return cost;
}

std::int64_t Attention::workspace_bytes(Views inputs, Views) const {
    const AttentionShape shape(inputs[0], inputs[1], causal);
    return dispatch_float(inputs[0].dtype, [&]<class T>(T) {
        return team_size() * ForwardScratch<accumulator_t<T>>(shape, nullptr).bytes;
    });
}

void Attention::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, 3, outputs, 2);
    const auto& q = inputs[0];
    expect_attention(q, inputs[1], inputs[2], outputs[1], causal);
    expect_heads(outputs[0], q, q.dtype);
    const AttentionShape shape(q, inputs[1], causal);
    CLEAVE_CHECK(shape.keys > 0 || q.elements() == 0, "attention to no keys");
    const std::int64_t blocks = (shape.queries + kTaskQueries - 1) / kTaskQueries;
    dispatch_float(q.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        parallel_for(shape.batch * shape.key_heads * blocks, 1,
                     [&](std::int64_t begin, std::int64_t end, std::int64_t chunk) {
                         const std::int64_t bytes = ForwardScratch<A>(shape, nullptr).bytes;
                         const ForwardScratch<A> scratch(shape, static_cast<std::byte*>(workspace) + chunk * bytes);
                         for (std::int64_t task = begin; task < end; ++task) {
                             const std::int64_t b = task / blocks / shape.key_heads;
                             const std::int64_t g = task / blocks % shape.key_heads;
                             const std::int64_t first = task % blocks * kTaskQueries;
                             const std::int64_t last = std::min(shape.queries, first + kTaskQueries);
                             const std::int64_t seen = shape.visible(last - 1);
                             pack_transposed(HeadRows<T>(inputs[1], b, g), seen, padded<A>(shape.keys), scratch.keys);
                             pack_rows(HeadRows<T>(inputs[2], b, g), 0, seen, A{1}, scratch.values);
                             for (std::int64_t h = g * shape.group(); h < (g + 1) * shape.group(); ++h) {
                                 A* lse = outputs[1].as<A>() + (b * shape.heads + h) * shape.queries;
                                 for (std::int64_t t = first; t < last; t += kQueryBlock)
                                     attend(shape, static_cast<A>(scale), scratch, HeadRows<T>(q, b, h),
                                            HeadRows<T>(outputs[0], b, h), lse, t, std::min(kQueryBlock, last - t));
                             }
                         }
                     });
    });
}

}  // namespace cleave::kernels

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
    A* queries;  // [kQueryBlock, padded d]
    A* output;   // [kQueryBlock, padded d], before the division by the sum
    std::int64_t bytes;
};

// The running softmax of a block of queries. Each step goes over all rows, so that they hide each other's latencies.
template <class A>
struct Softmax {
    alignas(64) A scores[kQueryBlock * kKeyBlock];
    alignas(64) A highest[kQueryBlock];
    alignas(64) A factors[kQueryBlock];
    Vec<A> sums[kQueryBlock];  // lane by lane; added up at the end

    Softmax() {
        for (A& h : highest) h = -std::numeric_limits<A>::infinity();
        for (Vec<A>& s : sums) s = Vec<A>{};
    }

    // Scales the scores, masks those from visible(r) on, and takes their highest; factors[r] turns what was summed
    // before into sums relative to the new highest.
    template <class Visible>
    void update(std::int64_t rows, std::int64_t vectors, A scale, const Visible& visible) {
        const Vec<A> masked = splat(-std::numeric_limits<A>::infinity());
        for (std::int64_t r = 0; r < rows; ++r) {
            A* row = scores + r * kKeyBlock;
            Vec<A> top = masked;
            for (std::int64_t v = 0; v < vectors; ++v) {
                Vec<A> score = load(row + v * kLanes<A>) * scale;
                if (visible(r) < (v + 1) * kLanes<A>) score = select_first(score, masked, visible(r) - v * kLanes<A>);
                store(row + v * kLanes<A>, score);
                top = max(top, score);
            }
            const A updated = std::max(highest[r], largest(top));
            factors[r] = highest[r] - updated;
            highest[r] = updated;
        }
        for (std::int64_t r = 0; r < kQueryBlock; r += kLanes<A>) store(factors + r, exp(load(factors + r)));
    }

    // Scores become probabilities, up to the division by their sum.
    void exponentiate(std::int64_t rows, std::int64_t vectors) {
        for (std::int64_t r = 0; r < rows; ++r) {
            sums[r] *= factors[r];
            for (std::int64_t v = 0; v < vectors; ++v) {
                A* score = scores + r * kKeyBlock + v * kLanes<A>;
                const Vec<A> p = exp(load(score) - highest[r]);
                store(score, p);
                sums[r] += p;
            }
        }
    }
};

// One block of queries [t, t + rows) of one head against all keys that it sees.
template <class T, class A = accumulator_t<T>>
void attend(const AttentionShape& shape, A scale, const ForwardScratch<A>& scratch, const HeadRows<T>& q,
            const HeadRows<T>& o, A* lse, std::int64_t t, std::int64_t rows) {
    const std::int64_t depth = padded<A>(shape.depth);
    pack_rows(q, t, rows, scratch.queries);
    Softmax<A> softmax;
    const std::int64_t seen = shape.visible(t + rows - 1);
    for (std::int64_t s = 0; s < seen; s += kKeyBlock) {
        const std::int64_t keys = std::min(kKeyBlock, seen - s);
        const std::int64_t vectors = padded<A>(keys) / kLanes<A>;
        tile_product<A>({scratch.queries, depth, 1}, scratch.keys + s, padded<A>(shape.keys), softmax.scores, kKeyBlock,
                        rows, vectors, shape.depth, false);
        softmax.update(rows, vectors, scale, [&](std::int64_t r) { return std::min(keys, shape.visible(t + r) - s); });
        softmax.exponentiate(rows, vectors);
        for (std::int64_t r = 0; s > 0 && r < rows; ++r)
            for (std::int64_t d = 0; d < depth; d += kLanes<A>) {
                A* output = scratch.output + r * depth + d;
                store(output, load(output) * softmax.factors[r]);
            }
        tile_product<A>({softmax.scores, kKeyBlock, 1}, scratch.values + s * depth, depth, scratch.output, depth, rows,
                        depth / kLanes<A>, keys, s > 0);
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
                             pack_rows(HeadRows<T>(inputs[2], b, g), 0, seen, scratch.values);
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

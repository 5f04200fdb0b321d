// With p = exp(scale q k - lse), delta[t] = sum over d of do[t, d] o[t, d] and ds = p (do v^T - delta) scale:
//   dv = p^T do,  dk = ds^T q,  dq = ds k
// One task has one head of keys with all heads of queries of its group: dk and dv are summed by one thread, over heads
// and queries in ascending order.
#include "kernels/attention.h"
#include "kernels/attention_mask.h"
#include "kernels/attention_tiles.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

template <class A>
struct BackwardScratch {
    BackwardScratch(const AttentionShape& shape, void* begin) {
        Scratch scratch(begin);
        const std::int64_t depth = padded<A>(shape.depth);
        const std::int64_t keys = padded<A>(shape.keys);
        keys_transposed = scratch.take<A>(shape.depth * keys);
        values_transposed = scratch.take<A>(shape.depth * keys);
        this->keys = scratch.take<A>(shape.keys * depth);
        dk = scratch.take<A>(keys * depth);
        dv = scratch.take<A>(keys * depth);
        queries = scratch.take<A>(kQueryBlock * depth);
        doutput = scratch.take<A>(kQueryBlock * depth);
        dq = scratch.take<A>(kQueryBlock * depth);
        bytes = scratch.used();
    }
    A* keys_transposed;    // [d, padded s]
    A* values_transposed;  // [d, padded s]
    A* keys;               // [s, padded d]
    A* dk;                 // [padded s, padded d]
    A* dv;                 // [padded s, padded d]
    A* queries;            // [kQueryBlock, padded d]
    A* doutput;            // [kQueryBlock, padded d]
    A* dq;                 // [kQueryBlock, padded d]
    std::int64_t bytes;
};

template <class T>
struct Head {
    HeadRows<T> q, o, doutput, dq;
    const accumulator_t<T>* lse;
};

template <class A>
struct ScoreTile {
    alignas(64) A p[kQueryBlock * kKeyBlock];
    alignas(64) A ds[kQueryBlock * kKeyBlock];

    // From scores in p and do v^T in ds to p and ds. Keys outside [begin, end) are masked.
    void row(std::int64_t r, std::int64_t begin, std::int64_t end, std::int64_t vectors, A scale, A lse, A delta) {
        A* scores = p + r * kKeyBlock;
        A* dp = ds + r * kKeyBlock;
        for (std::int64_t v = 0; v < vectors; ++v) {
            const std::int64_t i = v * kLanes<A>;
            Vec<A> probability = exp(simd::fma(load(scores + i), splat(scale), splat(-lse)));
            if (begin > i || end < i + kLanes<A>) probability = select_range(probability, Vec<A>{}, begin - i, end - i);
            store(scores + i, probability);
            store(dp + i, probability * (load(dp + i) - delta) * scale);
        }
    }
};

// One block of queries [t, t + rows) of one head.
template <class T, class A = accumulator_t<T>>
void attend_back(const AttentionShape& shape, const KeyMask& mask, A scale, const BackwardScratch<A>& scratch,
                 const Head<T>& head, std::int64_t t, std::int64_t rows) {
    const std::int64_t depth = padded<A>(shape.depth);
    const std::int64_t depth_vectors = depth / kLanes<A>;
    const std::int64_t key_stride = padded<A>(shape.keys);
    ScoreTile<A> tile;
    A delta[kQueryBlock];
    pack_rows(head.q, t, rows, scratch.queries);
    pack_rows(head.doutput, t, rows, scratch.doutput);
    for (std::int64_t r = 0; r < rows; ++r)
        delta[r] = sum_over<A>(shape.depth, [&](std::int64_t d, auto count) {
            return load(head.o.row(t + r) + d, count) * load(scratch.doutput + r * depth + d);
        });
    std::fill_n(scratch.dq, rows * depth, A{});
    const std::int64_t seen = mask.end(t + rows - 1);
    for (std::int64_t s = mask.begin(t) / kKeyBlock * kKeyBlock; s < seen; s += kKeyBlock) {
        const std::int64_t keys = std::min(kKeyBlock, seen - s);
        const std::int64_t vectors = padded<A>(keys) / kLanes<A>;
        tile_product<A>({scratch.queries, depth, 1}, scratch.keys_transposed + s, key_stride, tile.p, kKeyBlock, rows,
                        vectors, shape.depth, false);
        tile_product<A>({scratch.doutput, depth, 1}, scratch.values_transposed + s, key_stride, tile.ds, kKeyBlock,
                        rows, vectors, shape.depth, false);
        for (std::int64_t r = 0; r < rows; ++r)
            tile.row(r, mask.begin(t + r) - s, std::min(keys, mask.end(t + r) - s), vectors, scale, head.lse[t + r],
                     delta[r]);
        // Masked keys have p = ds = 0: whole vectors of keys may be added.
        tile_product<A>({tile.p, 1, kKeyBlock}, scratch.doutput, depth, scratch.dv + s * depth, depth,
                        vectors * kLanes<A>, depth_vectors, rows, true);
        tile_product<A>({tile.ds, 1, kKeyBlock}, scratch.queries, depth, scratch.dk + s * depth, depth,
                        vectors * kLanes<A>, depth_vectors, rows, true);
        tile_product<A>({tile.ds, kKeyBlock, 1}, scratch.keys + s * depth, depth, scratch.dq, depth, rows,
                        depth_vectors, keys, true);
    }
    for (std::int64_t r = 0; r < rows; ++r)
        for_vectors<A>(0, shape.depth, [&](std::int64_t d, auto count) {
            store(head.dq.row(t + r) + d, load(scratch.dq + r * depth + d), count);
        });
}

template <class T, class A = accumulator_t<T>>
void unpack_rows(const A* from, const HeadRows<T>& to, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r)
        for_vectors<A>(0, to.depth, [&](std::int64_t d, auto live) {
            store(to.row(r) + d, load(from + r * padded<A>(to.depth) + d), live);
        });
}

}  // namespace

const Signature& AttentionBackward::signature() const {
    static const Signature plain(
        "do[b t! h d!] ~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] ~o[b t! h d!] ~lse[b h t!] -> "
        "dq[b t! h d!] dk[b s! h d!] dv[b s! h d!]");
    static const Signature with_documents(
        "do[b t! h d!] ~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] ~o[b t! h d!] ~lse[b h t!] #first[b t!] -> "
        "dq[b t! h d!] dk[b s! h d!] dv[b s! h d!]");
    return form.documents ? with_documents : plain;
}

Cost AttentionBackward::cost(Views inputs, Views outputs) const {
    const AttentionShape shape(form, inputs[1], inputs[2]);
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 10 * static_cast<double>(shape.depth) * shape.pairs();
    return cost;
}

std::int64_t AttentionBackward::workspace_bytes(Views inputs, Views) const {
    const AttentionShape shape(form, inputs[1], inputs[2]);
    return dispatch_float(inputs[0].dtype, [&]<class T>(T) {
        return team_size() * BackwardScratch<accumulator_t<T>>(shape, nullptr).bytes;
    });
}

void AttentionBackward::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, form.documents ? 7 : 6, outputs, 3);
    const View& q = inputs[1];
    expect_attention(form, q, inputs[2], inputs[3], inputs[5]);
    for (const View* view : {&inputs[0], &inputs[4], &outputs[0]}) expect_heads(*view, q, q.dtype);
    for (const View& view : outputs.last(2)) expect_heads(view, inputs[2], q.dtype);
    const AttentionShape shape(form, q, inputs[2]);
    if (form.documents) expect_first_visible(shape, inputs[6]);
    dispatch_float(q.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        parallel_for(shape.batch * shape.key_heads, 1, [&](std::int64_t begin, std::int64_t end, std::int64_t chunk) {
            const std::int64_t bytes = BackwardScratch<A>(shape, nullptr).bytes;
            const BackwardScratch<A> scratch(shape, static_cast<std::byte*>(workspace) + chunk * bytes);
            for (std::int64_t task = begin; task < end; ++task) {
                const std::int64_t b = task / shape.key_heads;
                const std::int64_t g = task % shape.key_heads;
                const KeyMask mask(shape, form.documents ? &inputs[6] : nullptr, b);
                const HeadRows<T> k(inputs[2], b, g);
                pack_transposed(k, 0, shape.keys, padded<A>(shape.keys), scratch.keys_transposed);
                pack_transposed(HeadRows<T>(inputs[3], b, g), 0, shape.keys, padded<A>(shape.keys),
                                scratch.values_transposed);
                pack_rows(k, 0, shape.keys, scratch.keys);
                const std::int64_t sums = padded<A>(shape.keys) * padded<A>(shape.depth);
                std::fill_n(scratch.dk, sums, A{});
                std::fill_n(scratch.dv, sums, A{});
                for (std::int64_t h = g * shape.group(); h < (g + 1) * shape.group(); ++h) {
                    const Head<T> head{{q, b, h},
                                       {inputs[4], b, h},
                                       {inputs[0], b, h},
                                       {outputs[0], b, h},
                                       inputs[5].as<A>() + (b * shape.heads + h) * shape.queries};
                    for (std::int64_t t = 0; t < shape.queries; t += kQueryBlock)
                        attend_back(shape, mask, static_cast<A>(form.scale), scratch, head, t,
                                    std::min(kQueryBlock, shape.queries - t));
                }
                unpack_rows(scratch.dk, HeadRows<T>(outputs[1], b, g), shape.keys);
                unpack_rows(scratch.dv, HeadRows<T>(outputs[2], b, g), shape.keys);
            }
        });
    });
}

}  // namespace cleave::kernels

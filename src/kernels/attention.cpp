#include "kernels/attention.h"

#include "kernels/attention_mask.h"
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
        // A task begins with a whole block of keys.
        stride = padded<A>(std::min(shape.keys, shape.most_keys(kTaskQueries) + kKeyBlock));
        keys = scratch.take<A>(shape.depth * stride);
        values = scratch.take<A>(stride * padded<A>(shape.depth));
        queries = scratch.take<A>(kQueryBlock * padded<A>(shape.depth));
        output = scratch.take<A>(kQueryBlock * padded<A>(shape.depth));
        bytes = scratch.used();
    }
    std::int64_t stride;  // padded s, of the keys that a task sees
    A* keys;              // [d, stride]
    A* values;            // [s, padded d]
    A* queries;           // [kQueryBlock, padded d]
    A* output;            // [kQueryBlock, padded d], before the division by the sum
    std::int64_t bytes;
};

// The running softmax of a block of queries. Each step goes over all rows, so that they hide each other's latencies.
template <class A>
struct Softmax {
    alignas(64) A scores[kQueryBlock * kKeyBlock];
    alignas(64) A highest[kQueryBlock];
    alignas(64) A base[kQueryBlock];  // what is taken from the scores before exp
    alignas(64) A factors[kQueryBlock];
    Vec<A> sums[kQueryBlock];  // lane by lane; added up at the end

    Softmax() {
        for (A& h : highest) h = -std::numeric_limits<A>::infinity();
        for (Vec<A>& s : sums) s = Vec<A>{};
    }

    // Scales the scores, masks those outside [begin(r), end(r)) and takes their highest; factors[r] turns what was
    // summed before into sums relative to the new highest.
    template <class Begin, class End>
    void update(std::int64_t rows, std::int64_t vectors, A scale, const Begin& begin, const End& end) {
        const Vec<A> masked = splat(-std::numeric_limits<A>::infinity());
        for (std::int64_t r = 0; r < rows; ++r) {
            A* row = scores + r * kKeyBlock;
            Vec<A> top = masked;
            for (std::int64_t v = 0; v < vectors; ++v) {
                const std::int64_t i = v * kLanes<A>;
                Vec<A> score = load(row + i) * scale;
                if (begin(r) > i || end(r) < i + kLanes<A>)
                    score = select_range(score, masked, begin(r) - i, end(r) - i);
                store(row + i, score);
                top = max(top, score);
            }
            const A updated = std::max(highest[r], largest(top));
            // A row that has seen no key yet has no highest score; 0 serves as well.
            base[r] = updated == -std::numeric_limits<A>::infinity() ? A{} : updated;
            factors[r] = highest[r] - base[r];
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
                const Vec<A> p = exp(load(score) - base[r]);
                store(score, p);
                sums[r] += p;
            }
        }
    }
};

// One block of queries [t, t + rows) of one head against all keys that it sees; the packed keys begin at `packed`.
template <class T, class A = accumulator_t<T>>
void attend(const AttentionShape& shape, const KeyMask& mask, A scale, const ForwardScratch<A>& scratch,
            const HeadRows<T>& q, const HeadRows<T>& o, A* lse, std::int64_t packed, std::int64_t t,
            std::int64_t rows) {
    const std::int64_t depth = padded<A>(shape.depth);
    pack_rows(q, t, rows, scratch.queries);
    std::fill_n(scratch.output, rows * depth, A{});
    Softmax<A> softmax;
    const std::int64_t seen = mask.end(t + rows - 1);
    for (std::int64_t s = mask.begin(t) / kKeyBlock * kKeyBlock; s < seen; s += kKeyBlock) {
        const std::int64_t keys = std::min(kKeyBlock, seen - s);
        const std::int64_t vectors = padded<A>(keys) / kLanes<A>;
        tile_product<A>({scratch.queries, depth, 1}, scratch.keys + (s - packed), scratch.stride, softmax.scores,
                        kKeyBlock, rows, vectors, shape.depth, false);
        softmax.update(
            rows, vectors, scale, [&](std::int64_t r) { return mask.begin(t + r) - s; },
            [&](std::int64_t r) { return std::min(keys, mask.end(t + r) - s); });
        softmax.exponentiate(rows, vectors);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t d = 0; d < depth; d += kLanes<A>) {
                A* output = scratch.output + r * depth + d;
                store(output, load(output) * softmax.factors[r]);
            }
        tile_product<A>({softmax.scores, kKeyBlock, 1}, scratch.values + (s - packed) * depth, depth, scratch.output,
                        depth, rows, depth / kLanes<A>, keys, true);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
        const A total = sum(softmax.sums[r]);
        lse[t + r] = softmax.highest[r] + std::log(total);
        for_vectors<A>(0, shape.depth, [&](std::int64_t d, auto count) {
            store(o.row(t + r) + d, load(scratch.output + r * depth + d) * (1 / total), count);
        });
    }
}

// Queries [first, last) of the heads that share key head g of sample b.
template <class T, class A = accumulator_t<T>>
void attend_group(const AttentionShape& shape, A scale, const ForwardScratch<A>& scratch, Views inputs, Views outputs,
                  std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t last) {
    const KeyMask mask(shape, inputs.size() > 3 ? &inputs[3] : nullptr, b);
    const std::int64_t packed = mask.begin(first) / kKeyBlock * kKeyBlock;
    const std::int64_t seen = mask.end(last - 1) - packed;
    pack_transposed(HeadRows<T>(inputs[1], b, g), packed, seen, scratch.stride, scratch.keys);
    pack_rows(HeadRows<T>(inputs[2], b, g), packed, seen, scratch.values);
    for (std::int64_t h = g * shape.group(); h < (g + 1) * shape.group(); ++h) {
        A* lse = outputs[1].as<A>() + (b * shape.heads + h) * shape.queries;
        for (std::int64_t t = first; t < last; t += kQueryBlock)
            attend(shape, mask, scale, scratch, HeadRows<T>(inputs[0], b, h), HeadRows<T>(outputs[0], b, h), lse,
                   packed, t, std::min(kQueryBlock, last - t));
    }
}

}  // namespace

const Signature& Attention::signature() const {
    static const Signature plain("~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] -> o[b t! h d!] lse[b h t!]");
    static const Signature with_documents(
        "~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] #first[b t!] -> o[b t! h d!] lse[b h t!]");
    return form.documents ? with_documents : plain;
}

Cost Attention::cost(Views inputs, Views outputs) const {
    const AttentionShape shape(form, inputs[0], inputs[1]);
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 4 * static_cast<double>(shape.depth) * shape.pairs();
    return cost;
}

std::int64_t Attention::workspace_bytes(Views inputs, Views) const {
    const AttentionShape shape(form, inputs[0], inputs[1]);
    return dispatch_float(inputs[0].dtype, [&]<class T>(T) {
        return team_size() * ForwardScratch<accumulator_t<T>>(shape, nullptr).bytes;
    });
}

void Attention::run(Views inputs, Views outputs, void* workspace) const {
    expect_count(*this, inputs, form.documents ? 4 : 3, outputs, 2);
    const auto& q = inputs[0];
    expect_attention(form, q, inputs[1], inputs[2], outputs[1]);
    expect_heads(outputs[0], q, q.dtype);
    const AttentionShape shape(form, q, inputs[1]);
    if (form.documents) expect_first_visible(shape, inputs[3]);
    CLEAVE_CHECK(shape.keys > 0 || q.elements() == 0, "attention to no keys");
    const std::int64_t blocks = (shape.queries + kTaskQueries - 1) / kTaskQueries;
    dispatch_float(q.dtype, [&]<class T>(T) {
        using A = accumulator_t<T>;
        parallel_for(shape.batch * shape.key_heads * blocks, 1,
                     [&](std::int64_t begin, std::int64_t end, std::int64_t chunk) {
                         const std::int64_t bytes = ForwardScratch<A>(shape, nullptr).bytes;
                         const ForwardScratch<A> scratch(shape, static_cast<std::byte*>(workspace) + chunk * bytes);
                         for (std::int64_t task = begin; task < end; ++task) {
                             const std::int64_t first = task % blocks * kTaskQueries;
                             attend_group<T>(shape, static_cast<A>(form.scale), scratch, inputs, outputs,
                                             task / blocks / shape.key_heads, task / blocks % shape.key_heads, first,
                                             std::min(shape.queries, first + kTaskQueries));
                         }
                     });
    });
}

}  // namespace cleave::kernels

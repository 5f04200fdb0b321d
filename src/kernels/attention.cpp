#include "kernels/attention.h"

#include "kernels/attention_dropout.h"
#include "kernels/attention_mask.h"
#include "kernels/attention_row.h"
#include "kernels/attention_tiles.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

// Queries of one task. Each task packs the keys and values that its queries see, for all heads of its group.
constexpr std::int64_t kTaskQueries = 512;

template <class T>
struct ForwardScratch {
    using A = accumulator_t<T>;
    ForwardScratch(const AttentionShape& shape, void* begin)
        : depth_units(units<T>(shape.depth)), depth(padded<A>(shape.depth)) {
        Scratch scratch(begin);
        // A task begins with a whole block of keys, which its first query may see the end of only.
        const std::int64_t most = blocks_of(shape.most_keys(kTaskQueries) + kKeyBlock - 1, kKeyBlock);
        const std::int64_t blocks = std::min(most, blocks_of(shape.keys, kKeyBlock));
        keys = scratch.take<Unit<T>>(blocks * key_block());
        values = scratch.take<Unit<T>>(blocks * value_block());
        queries = scratch.take<Unit<T>>(kQueryBlock * units<T>(depth));
        output = scratch.take<A>(kQueryBlock * depth);
        bytes = scratch.used();
    }
    std::int64_t key_block() const { return depth_units * kKeyBlock; }
    std::int64_t value_block() const { return units<T>(kKeyBlock) * depth; }

    std::int64_t depth_units, depth;  // of a head, in units and in padded numbers
    Unit<T>* keys;                    // for each block of keys [units of d, kKeyBlock]
    Unit<T>* values;                  // for each block of keys [units of kKeyBlock, padded d]
    Unit<T>* queries;                 // [kQueryBlock, units of padded d]
    A* output;                        // [kQueryBlock, padded d], before the division by the sum
    std::int64_t bytes;
};

// The running softmax of a block of queries, a strip at a time. Each step goes over all rows of the strip, so that they
// hide each other's latencies.
template <class T>
struct Softmax {
    using A = accumulator_t<T>;
    static constexpr A kNone = -std::numeric_limits<A>::infinity();
    static constexpr std::int64_t kRowUnits = kKeyBlock / kUnit<T>;

    alignas(64) A scores[kStrip * kKeyBlock];
    alignas(64) A kept[kStrip * kKeyBlock];                 // what dropout multiplies the probabilities by
    alignas(64) Unit<T> probabilities[kStrip * kRowUnits];  // up to the division by their sum
    alignas(64) A base[kStrip];                             // what is taken from the scores before exp
    alignas(64) A factors[kStrip];  // turn what was summed before into sums relative to the new base
    A highest[kQueryBlock];         // scores
    Vec<A> sums[kQueryBlock];       // lane by lane; added up at the end

    Softmax() {
        for (A& h : highest) h = kNone;
        for (Vec<A>& s : sums) s = Vec<A>{};
    }

    // Of the strip's row r, which is row strip + r of the block.
    void raise(std::int64_t strip, std::int64_t r, A top, A scale) {
        A& known = highest[strip + r];
        const A updated = std::max(known, top);
        base[r] = updated == kNone ? A{} : updated;  // of a row that has seen no key yet
        factors[r] = (known - base[r]) * scale;
        known = updated;
    }

    // Masks scores that are not seen: those of row r outside [begin(r), end(r)).
    template <class Begin, class End>
    void mask(const SeenVectors<A>& seen, std::int64_t rows, const Begin& begin, const End& end) {
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t v = seen.first; v < seen.last; ++v) {
                A* place = scores + r * kKeyBlock + v * kLanes<A>;
                store(place, select_range(load(place), splat(kNone), begin(r) - v * kLanes<A>, end(r) - v * kLanes<A>));
            }
    }

    template <bool Drops>
    void update(const SeenVectors<A>& seen, std::int64_t strip, std::int64_t rows, A scale) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const A* row = scores + r * kKeyBlock;
            Vec<A> top = splat(kNone);
            for (std::int64_t v = seen.first; v < seen.last; ++v) top = max(top, load(row + v * kLanes<A>));
            raise(strip, r, largest(top), scale);
        }
        for (std::int64_t r = 0; r < kStrip; r += kLanes<A>) store(factors + r, exp(load(factors + r)));
        for (std::int64_t r = 0; r < rows; ++r) {
            Vec<A> sum = sums[strip + r] * factors[r];
            for (std::int64_t v = seen.first; v < seen.last; ++v) {
                const std::int64_t i = v * kLanes<A>;
                const Vec<A> p = exp((load(scores + r * kKeyBlock + i) - base[r]) * scale);
                sum += p;
                Unit<T>* place = probabilities + r * kRowUnits + units<T>(i);
                if constexpr (Drops)
                    store_row<T>(place, p * load(kept + r * kKeyBlock + i));
                else
                    store_row<T>(place, p);
            }
            sums[strip + r] = sum;
        }
    }
};

// Everything that does not change within a task.
template <class T>
struct Task {
    using A = accumulator_t<T>;
    const AttentionForm& form;
    const AttentionShape& shape;
    const ForwardScratch<T>& scratch;
    KeyMask mask;
    A scale;
    std::int64_t packed;  // the key at which the packed ones begin
};

// A strip of queries [t, t + rows), which is row `strip` and on of its block, against the block of keys at s.
template <class T>
void attend_strip(const Task<T>& task, const ProbabilityDropout<accumulator_t<T>>& dropout, Softmax<T>& softmax,
                  std::int64_t t, std::int64_t strip, std::int64_t rows, std::int64_t s) {
    using A = accumulator_t<T>;
    const ForwardScratch<T>& scratch = task.scratch;
    const SeenVectors<A> seen(task.mask, t, rows, s);
    if (seen.first == seen.last) return;
    const std::int64_t block = (s - task.packed) / kKeyBlock;
    const std::int64_t first = seen.first * kLanes<A>;
    const std::int64_t query_stride = units<T>(scratch.depth);
    tile_product(TileA<Unit<T>>{scratch.queries + strip * query_stride, query_stride, 1},
                 scratch.keys + block * scratch.key_block() + first, kKeyBlock, softmax.scores + first, kKeyBlock, rows,
                 seen.last - seen.first, scratch.depth_units, Overwrite{});
    if (!seen.all)
        softmax.mask(
            seen, rows, [&](std::int64_t r) { return task.mask.begin(t + r) - s; },
            [&](std::int64_t r) { return task.mask.end(t + r) - s; });
    if (dropout.active()) {
        dropout.factors(t, rows, s, softmax.kept);
        softmax.template update<true>(seen, strip, rows, task.scale);
    } else {
        softmax.template update<false>(seen, strip, rows, task.scale);
    }
    tile_product(TileA<Unit<T>>{softmax.probabilities + units<T>(first), softmax.kRowUnits, 1},
                 scratch.values + block * scratch.value_block() + units<T>(first) * scratch.depth, scratch.depth,
                 scratch.output + strip * scratch.depth, scratch.depth, rows, scratch.depth / kLanes<A>,
                 units<T>((seen.last - seen.first) * kLanes<A>), AddToScaled<A>{softmax.factors});
}

// One block of queries [t, t + rows) of one head against all keys that it sees.
template <class T>
void attend(const Task<T>& task, const ProbabilityDropout<accumulator_t<T>>& dropout, const HeadRows<T>& q,
            const HeadRows<T>& o, accumulator_t<T>* lse, std::int64_t t, std::int64_t rows) {
    using A = accumulator_t<T>;
    const std::int64_t depth = task.scratch.depth;
    pack_left(q, t, rows, task.scratch.queries);
    std::fill_n(task.scratch.output, rows * depth, A{});
    Softmax<T> softmax;
    const std::int64_t seen = task.mask.end(t + rows - 1);
    for (std::int64_t s = task.mask.begin(t) / kKeyBlock * kKeyBlock; s < seen; s += kKeyBlock)
        for (std::int64_t strip = 0; strip < rows; strip += kStrip)
            attend_strip(task, dropout, softmax, t + strip, strip, std::min(kStrip, rows - strip), s);
    for (std::int64_t r = 0; r < rows; ++r) {
        const A total = sum(softmax.sums[r]);
        lse[t + r] = softmax.highest[r] * task.scale + std::log(total);
        for_vectors<A>(0, q.depth, [&](std::int64_t d, auto count) {
            store(o.row(t + r) + d, load(task.scratch.output + r * depth + d) * (1 / total), count);
        });
    }
}

// Queries [first, last) of the heads that share key head g of sample b.
template <class T>
void attend_group(const Task<T>& task, const View& launched_q, Views inputs, Views outputs, std::int64_t b,
                  std::int64_t g, std::int64_t first, std::int64_t last) {
    const HeadRows<T> k(inputs[1], b, g), v(inputs[2], b, g);
    const ForwardScratch<T>& scratch = task.scratch;
    const std::int64_t end = task.mask.end(last - 1);
    for (std::int64_t s = task.packed, block = 0; s < end; s += kKeyBlock, ++block) {
        const std::int64_t count = std::min(kKeyBlock, end - s);
        pack_right_transposed(k, s, count, scratch.keys + block * scratch.key_block());
        pack_right(v, s, count, scratch.values + block * scratch.value_block());
    }
    const AttentionShape& shape = task.shape;
    for (std::int64_t h = g * shape.group(); h < (g + 1) * shape.group(); ++h) {
        auto* lse = outputs[1].as<accumulator_t<T>>() + (b * shape.heads + h) * shape.queries;
        const ProbabilityDropout<accumulator_t<T>> dropout(task.form, shape, launched_q, b, h);
        for (std::int64_t t = first; t < last; t += kQueryBlock)
            attend(task, dropout, HeadRows<T>(inputs[0], b, h), HeadRows<T>(outputs[0], b, h), lse, t,
                   std::min(kQueryBlock, last - t));
    }
}

}  // namespace

const Signature& Attention::signature() const {
    static const Signature plain("~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] -> o[b t! h d!] lse[b h t!]");
    static const Signature with_documents(
        "~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] #first[b t!] -> o[b t! h d!] lse[b h t!]");
    static const Signature grouped("~q[b t! g r d!] ~k[b s! g d!] ~v[b s! g d!] -> o[b t! g r d!] lse[b g r t!]");
    static const Signature grouped_with_documents(
        "~q[b t! g r d!] ~k[b s! g d!] ~v[b s! g d!] #first[b t!] -> o[b t! g r d!] lse[b g r t!]");
    if (form.grouped) return form.documents ? grouped_with_documents : grouped;
    return form.documents ? with_documents : plain;
}

Cost Attention::cost(Views inputs, Views outputs) const {
    const ForwardHeads heads(form, inputs, outputs);
    const AttentionShape shape(form, heads.inputs[0], heads.inputs[1]);
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 4 * static_cast<double>(shape.depth) * shape.pairs();
    return cost;
}

std::int64_t Attention::workspace_bytes(Views inputs, Views outputs) const {
    const ForwardHeads heads(form, inputs, outputs);
    const AttentionShape shape(form, heads.inputs[0], heads.inputs[1]);
    if (is_row_attention(form, shape)) return row_attention_workspace(shape, inputs[0].dtype);
    return dispatch_float(inputs[0].dtype,
                          [&]<class T>(T) { return team_size() * ForwardScratch<T>(shape, nullptr).bytes; });
}

void Attention::run(Views launched_inputs, Views launched_outputs, void* workspace) const {
    expect_count(*this, launched_inputs, form.documents ? 4 : 3, launched_outputs, 2);
    const ForwardHeads merged_heads(form, launched_inputs, launched_outputs);
    const Views inputs = merged_heads.inputs;
    const Views outputs = merged_heads.outputs;
    const auto& q = inputs[0];
    expect_attention(form, q, inputs[1], inputs[2], outputs[1]);
    expect_heads(outputs[0], q, q.dtype);
    const AttentionShape shape(form, q, inputs[1]);
    if (form.documents) expect_first_visible(shape, inputs[3]);
    CLEAVE_CHECK(shape.keys > 0 || q.elements() == 0, "attention to no keys");
    if (is_row_attention(form, shape)) return row_attention(form, shape, inputs, outputs, workspace);
    const std::int64_t heads = shape.batch * shape.key_heads;
    const std::int64_t blocks = blocks_of(shape.queries, kTaskQueries);
    dispatch_float(q.dtype, [&]<class T>(T) {
        parallel_tasks(heads * blocks, [&](std::int64_t i, std::int64_t worker) {
            const std::int64_t bytes = ForwardScratch<T>(shape, nullptr).bytes;
            const ForwardScratch<T> scratch(shape, static_cast<std::byte*>(workspace) + worker * bytes);
            const std::int64_t b = i % heads / shape.key_heads;
            const std::int64_t first = (blocks - 1 - i / heads) * kTaskQueries;  // those that see most begin
            const KeyMask mask(shape, form.documents ? &inputs[3] : nullptr, b);
            const Task<T> task{form,
                               shape,
                               scratch,
                               mask,
                               static_cast<accumulator_t<T>>(form.scale),
                               mask.begin(first) / kKeyBlock * kKeyBlock};
            attend_group(task, launched_inputs[0], inputs, outputs, b, i % shape.key_heads, first,
                         std::min(shape.queries, first + kTaskQueries));
        });
    });
}

}  // namespace cleave::kernels

// With p = exp(scale q k - lse), delta[t] = sum over d of do[t, d] o[t, d] and ds = p (do v^T - delta):
//   dv = p^T do,  dk = scale ds^T q,  dq = scale ds k
// Dropout multiplies do v^T, and p in dv.
// One task has one head of keys with all heads of queries of its group: dk and dv are summed by one thread, over heads
// and queries in ascending order.
#include "kernels/attention.h"
#include "kernels/attention_dropout.h"
#include "kernels/attention_mask.h"
#include "kernels/attention_tiles.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

using namespace simd;

template <class T>
struct BackwardScratch {
    using A = accumulator_t<T>;
    BackwardScratch(const AttentionShape& shape, void* begin)
        : depth_units(units<T>(shape.depth)), depth(padded<A>(shape.depth)) {
        Scratch scratch(begin);
        const std::int64_t blocks = blocks_of(shape.keys, kKeyBlock);
        for (auto** transposed : {&keys_transposed, &values_transposed})
            *transposed = scratch.take<Unit<T>>(blocks * transposed_block());
        keys = scratch.take<Unit<T>>(blocks * units<T>(kKeyBlock) * depth);
        for (auto** sums : {&dk, &dv}) *sums = scratch.take<A>(blocks * kKeyBlock * depth);
        for (auto** left : {&queries_left, &doutput_left}) *left = scratch.take<Unit<T>>(kQueryBlock * units<T>(depth));
        for (auto** right : {&queries, &doutput}) *right = scratch.take<Unit<T>>(units<T>(kQueryBlock) * depth);
        dq = scratch.take<A>(kQueryBlock * depth);
        bytes = scratch.used();
    }
    std::int64_t transposed_block() const { return depth_units * kKeyBlock; }
    // Row s of arrays of rows as sums, and as a right factor.
    A* sum_row(A* sums, std::int64_t s) const { return sums + s * depth; }
    Unit<T>* right_row(Unit<T>* factor, std::int64_t s) const { return factor + units<T>(s) * depth; }
    TileA<Unit<T>> left_row(Unit<T>* factor, std::int64_t r) const {
        return {factor + r * units<T>(depth), units<T>(depth), 1};
    }

    std::int64_t depth_units, depth;              // of a head, in units and in padded numbers
    Unit<T>*keys_transposed, *values_transposed;  // for each block of keys [units of d, kKeyBlock]
    Unit<T>* keys;                                // [units of s, padded d]
    A *dk, *dv;                                   // [s, padded d]; dk without the scale
    Unit<T>*queries_left, *doutput_left;          // of a block of queries [kQueryBlock, units of padded d]
    Unit<T>*queries, *doutput;                    // [units of kQueryBlock, padded d]
    A* dq;                                        // [kQueryBlock, padded d], without the scale
    std::int64_t bytes;
};

template <class T>
struct Head {
    HeadRows<T> q, o, doutput, dq;
    const accumulator_t<T>* lse;
};

// One block of queries [t, t + rows) of one head against all keys that it sees.
template <class T>
class QueryBlock {
  public:
    using A = accumulator_t<T>;
    QueryBlock(const KeyMask& mask, const ProbabilityDropout<A>& dropout, A scale, const BackwardScratch<T>& scratch,
               const Head<T>& head, std::int64_t t, std::int64_t rows)
        : mask_(mask), dropout_(dropout), scale_(scale), scratch_(scratch), t_(t), rows_(rows) {
        pack_left(head.q, t, rows, scratch.queries_left);
        pack_left(head.doutput, t, rows, scratch.doutput_left);
        pack_right(head.q, t, rows, scratch.queries);
        pack_right(head.doutput, t, rows, scratch.doutput);
        for (std::int64_t r = 0; r < rows; ++r) {
            lse_[r] = head.lse[t + r];
            delta_[r] = sum_over<A>(head.q.depth, [&](std::int64_t d, auto count) {
                return load(head.o.row(t + r) + d, count) * load(head.doutput.row(t + r) + d, count);
            });
        }
        std::fill_n(scratch.dq, rows * scratch.depth, A{});
    }

    void run() {
        const std::int64_t end = mask_.end(t_ + rows_ - 1);
        for (std::int64_t s = mask_.begin(t_) / kKeyBlock * kKeyBlock; s < end; s += kKeyBlock) against(s);
    }

  private:
    // Against the block of keys at s.
    void against(std::int64_t s) {
        const std::int64_t strips = blocks_of(rows_, kStrip);
        SeenVectors<A> seen[kQueryBlock / kStrip];
        for (std::int64_t i = 0; i < strips; ++i) {
            seen[i] = SeenVectors<A>(mask_, t_ + i * kStrip, strip_rows(i), s);
            if (seen[i].first < seen[i].last) strip(i, s, seen[i]);
        }
        // The queries that see a vector of keys are strips that follow each other.
        std::int64_t first = 0;
        std::int64_t last = 0;
        for (std::int64_t v = seen[0].first; v < seen[strips - 1].last; ++v) {
            while (first < strips && seen[first].last <= v) ++first;
            while (last < strips && seen[last].first <= v) ++last;
            if (first < last) add_to_keys(s, v, first * kStrip, std::min(rows_, last * kStrip));
        }
    }

    std::int64_t strip_rows(std::int64_t i) const { return std::min(kStrip, rows_ - i * kStrip); }

    // p, ds and dq of strip i.
    void strip(std::int64_t i, std::int64_t s, const SeenVectors<A>& seen) {
        const std::int64_t row = i * kStrip;
        const std::int64_t rows = strip_rows(i);
        const std::int64_t first = seen.first * kLanes<A>;
        const std::int64_t transposed = s / kKeyBlock * scratch_.transposed_block() + first;
        auto product = [&](Unit<T>* left, const Unit<T>* right, A* to) {
            tile_product(scratch_.left_row(left, row), right + transposed, kKeyBlock, to + first, kKeyBlock, rows,
                         seen.last - seen.first, scratch_.depth_units, Overwrite{});
        };
        product(scratch_.queries_left, scratch_.keys_transposed, scores_);
        product(scratch_.doutput_left, scratch_.values_transposed, dp_);
        if (dropout_.active()) dropout_.factors(t_ + row, rows, s, kept_);
        for (std::int64_t r = 0; r < rows; r += 2) {
            if (dropout_.active())
                two_rows<false, true>(row, r, s, seen);
            else if (seen.all && r + 2 <= rows)
                two_rows<true, false>(row, r, s, seen);
            else
                two_rows<false, false>(row, r, s, seen);
        }
        tile_product(ds_.by_rows(row, first), scratch_.right_row(scratch_.keys, s + first), scratch_.depth,
                     scratch_.dq + row * scratch_.depth, scratch_.depth, rows, scratch_.depth / kLanes<A>,
                     units<T>((seen.last - seen.first) * kLanes<A>), AddTo{});
    }

    // Rows r and r + 1 of the strip that begins with row `strip` of the block; a row beyond the last sees nothing.
    template <bool All, bool Drops>
    void two_rows(std::int64_t strip, std::int64_t r, std::int64_t s, const SeenVectors<A>& seen) {
        for (std::int64_t v = seen.first; v < seen.last; ++v) {
            const std::int64_t i = v * kLanes<A>;
            Vec<A> p[2];
            Vec<A> ds[2];
            for (std::int64_t two = 0; two < 2; ++two) {
                const std::int64_t row = strip + r + two;
                const std::int64_t place = (r + two) * kKeyBlock + i;
                p[two] = exp(simd::fma(load(scores_ + place), splat(scale_), splat(-lse_[row])));
                if constexpr (Drops) {
                    const Vec<A> kept = load(kept_ + place);
                    ds[two] = p[two] * (load(dp_ + place) * kept - delta_[row]);
                    p[two] *= kept;
                } else {
                    ds[two] = p[two] * (load(dp_ + place) - delta_[row]);
                }
                if (All) continue;
                const std::int64_t begin = row < rows_ ? mask_.begin(t_ + row) - s - i : 0;
                const std::int64_t end = row < rows_ ? mask_.end(t_ + row) - s - i : 0;
                p[two] = select_range(p[two], Vec<A>{}, begin, end);
                ds[two] = select_range(ds[two], Vec<A>{}, begin, end);
            }
            p_.store(strip + r, i, p[0], p[1]);
            ds_.store(strip + r, i, ds[0], ds[1]);
        }
    }

    // What the queries [first, last) of the block give to the keys of vector v.
    void add_to_keys(std::int64_t s, std::int64_t v, std::int64_t first, std::int64_t last) {
        const std::int64_t key = v * kLanes<A>;
        auto product = [&](const auto& tile, Unit<T>* right, A* sums) {
            tile_product(tile.by_columns(key, first), scratch_.right_row(right, first), scratch_.depth,
                         scratch_.sum_row(sums, s + key), scratch_.depth, std::int64_t{kLanes<A>},
                         scratch_.depth / kLanes<A>, units<T>(last - first), AddTo{});
        };
        product(p_, scratch_.doutput, scratch_.dv);
        product(ds_, scratch_.queries, scratch_.dk);
    }

    const KeyMask& mask_;
    const ProbabilityDropout<A>& dropout_;
    A scale_;
    const BackwardScratch<T>& scratch_;
    std::int64_t t_, rows_;
    A lse_[kQueryBlock]{};
    A delta_[kQueryBlock]{};
    alignas(64) A scores_[kStrip * kKeyBlock];
    alignas(64) A dp_[kStrip * kKeyBlock];
    alignas(64) A kept_[kStrip * kKeyBlock];  // what dropout multiplies by
    FactorTile<T, false> p_;
    FactorTile<T, true> ds_;
};

template <class T, class A = accumulator_t<T>>
void unpack_rows(const A* from, A scale, const HeadRows<T>& to, std::int64_t first, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r)
        for_vectors<A>(0, to.depth, [&](std::int64_t d, auto live) {
            store(to.row(first + r) + d, load(from + r * padded<A>(to.depth) + d) * scale, live);
        });
}

// The heads that share key head g of sample b.
template <class T>
void attend_back(const AttentionForm& form, const AttentionShape& shape, const KeyMask& mask,
                 const BackwardScratch<T>& scratch, const View& launched_q, Views inputs, Views outputs, std::int64_t b,
                 std::int64_t g) {
    using A = accumulator_t<T>;
    const HeadRows<T> k(inputs[2], b, g), v(inputs[3], b, g);
    for (std::int64_t s = 0, block = 0; s < shape.keys; s += kKeyBlock, ++block) {
        const std::int64_t count = std::min(kKeyBlock, shape.keys - s);
        pack_right_transposed(k, s, count, scratch.keys_transposed + block * scratch.transposed_block());
        pack_right_transposed(v, s, count, scratch.values_transposed + block * scratch.transposed_block());
        pack_right(k, s, count, scratch.right_row(scratch.keys, s));
    }
    for (A* sums : {scratch.dk, scratch.dv}) std::fill_n(sums, padded<A>(shape.keys) * scratch.depth, A{});
    const A factor = static_cast<A>(form.scale);
    for (std::int64_t h = g * shape.group(); h < (g + 1) * shape.group(); ++h) {
        const Head<T> head{{inputs[1], b, h},
                           {inputs[4], b, h},
                           {inputs[0], b, h},
                           {outputs[0], b, h},
                           inputs[5].as<A>() + (b * shape.heads + h) * shape.queries};
        const ProbabilityDropout<A> dropout(form, shape, launched_q, b, h);
        for (std::int64_t t = 0; t < shape.queries; t += kQueryBlock) {
            const std::int64_t rows = std::min(kQueryBlock, shape.queries - t);
            QueryBlock<T>(mask, dropout, factor, scratch, head, t, rows).run();
            unpack_rows(scratch.dq, factor, head.dq, t, rows);
        }
    }
    unpack_rows(scratch.dk, factor, HeadRows<T>(outputs[1], b, g), 0, shape.keys);
    unpack_rows(scratch.dv, A{1}, HeadRows<T>(outputs[2], b, g), 0, shape.keys);
}

}  // namespace

const Signature& AttentionBackward::signature() const {
    static const Signature plain(
        "do[b t! h d!] ~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] ~o[b t! h d!] ~lse[b h t!] -> "
        "dq[b t! h d!] dk[b s! h d!] dv[b s! h d!]");
    static const Signature with_documents(
        "do[b t! h d!] ~q[b t! h d!] ~k[b s! h d!] ~v[b s! h d!] ~o[b t! h d!] ~lse[b h t!] #first[b t!] -> "
        "dq[b t! h d!] dk[b s! h d!] dv[b s! h d!]");
    static const Signature grouped(
        "do[b t! g r d!] ~q[b t! g r d!] ~k[b s! g d!] ~v[b s! g d!] ~o[b t! g r d!] ~lse[b g r t!] -> "
        "dq[b t! g r d!] dk[b s! g d!] dv[b s! g d!]");
    static const Signature grouped_with_documents(
        "do[b t! g r d!] ~q[b t! g r d!] ~k[b s! g d!] ~v[b s! g d!] ~o[b t! g r d!] ~lse[b g r t!] #first[b t!] -> "
        "dq[b t! g r d!] dk[b s! g d!] dv[b s! g d!]");
    if (form.grouped) return form.documents ? grouped_with_documents : grouped;
    return form.documents ? with_documents : plain;
}

Cost AttentionBackward::cost(Views inputs, Views outputs) const {
    const BackwardHeads heads(form, inputs, outputs);
    const AttentionShape shape(form, heads.inputs[1], heads.inputs[2]);
    Cost cost = elementwise_cost(inputs, outputs, 0);
    cost.flops = 10 * static_cast<double>(shape.depth) * shape.pairs();  // five products
    return cost;
}

std::int64_t AttentionBackward::workspace_bytes(Views inputs, Views outputs) const {
    const BackwardHeads heads(form, inputs, outputs);
    const AttentionShape shape(form, heads.inputs[1], heads.inputs[2]);
    return dispatch_float(inputs[0].dtype,
                          [&]<class T>(T) { return team_size() * BackwardScratch<T>(shape, nullptr).bytes; });
}

void AttentionBackward::run(Views launched_inputs, Views launched_outputs, void* workspace) const {
    expect_count(*this, launched_inputs, form.documents ? 7 : 6, launched_outputs, 3);
    const BackwardHeads merged_heads(form, launched_inputs, launched_outputs);
    const Views inputs = merged_heads.inputs;
    const Views outputs = merged_heads.outputs;
    const View& q = inputs[1];
    expect_attention(form, q, inputs[2], inputs[3], inputs[5]);
    for (const View* view : {&inputs[0], &inputs[4], &outputs[0]}) expect_heads(*view, q, q.dtype);
    for (const View& view : outputs.last(2)) expect_heads(view, inputs[2], q.dtype);
    const AttentionShape shape(form, q, inputs[2]);
    if (form.documents) expect_first_visible(shape, inputs[6]);
    dispatch_float(q.dtype, [&]<class T>(T) {
        parallel_tasks(shape.batch * shape.key_heads, [&](std::int64_t task, std::int64_t worker) {
            const std::int64_t bytes = BackwardScratch<T>(shape, nullptr).bytes;
            const BackwardScratch<T> scratch(shape, static_cast<std::byte*>(workspace) + worker * bytes);
            const std::int64_t b = task / shape.key_heads;
            attend_back(form, shape, KeyMask(shape, form.documents ? &inputs[6] : nullptr, b), scratch,
                        launched_inputs[1], inputs, outputs, b, task % shape.key_heads);
        });
    });
}

}  // namespace cleave::kernels

// Dropout of attention's probabilities (attention.h), made anew for each tile, in forward and backward alike.
// Thread rule: pure functions.
#pragma once

#include <cmath>

#include "kernels/attention_tiles.h"

namespace cleave::kernels {

static_assert(kKeyBlock == RandomStream::kBlockWords);

// The index among all heads of head `h` of the piece q [b t h d] or [b t g r d].
inline std::int64_t global_head(const View& q, std::int64_t h) {
    if (q.shape.rank() == 4) return q.offset[2] + h;
    return (q.offset[2] + h / q.shape[3]) * q.global[3] + q.offset[3] + h % q.shape[3];
}
inline std::int64_t global_heads(const View& q) {
    return q.shape.rank() == 4 ? q.global[2] : q.global[2] * q.global[3];
}

// Of one head of one sample; `q` as it was launched.
template <class A>
class ProbabilityDropout {
  public:
    ProbabilityDropout(const AttentionForm& form, const AttentionShape& shape, const View& q, std::int64_t b,
                       std::int64_t h)
        : dropout_(form.dropout ? &*form.dropout : nullptr), key_blocks_(blocks_of(shape.keys, kKeyBlock)) {
        if (!dropout_) return;
        const std::int64_t sample = q.offset[0] + b + dropout_->row_shift;
        first_row_ = (sample * global_heads(q) + global_head(q, h)) * shape.queries;
        threshold_ = static_cast<std::uint32_t>(std::llround(dropout_->probability * 0x1p32));
        scale_ = static_cast<A>(1 / (1 - dropout_->probability));
    }

    bool active() const { return dropout_ != nullptr; }

    // factors[r, i]: what the probability of query t + r and key s + i is multiplied by, for a whole block of keys.
    void factors(std::int64_t t, std::int64_t rows, std::int64_t s, A* factors) const {
        std::array<std::uint32_t, RandomStream::kBlockWords> words;
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t block = (first_row_ + t + r) * key_blocks_ + s / kKeyBlock;
            dropout_->stream.block(static_cast<std::uint64_t>(block), words);
            for (std::size_t i = 0; i < words.size(); ++i)
                factors[r * kKeyBlock + static_cast<std::int64_t>(i)] = words[i] < threshold_ ? A{} : scale_;
        }
    }

  private:
    const AttentionDropout* dropout_;
    std::int64_t key_blocks_;
    std::int64_t first_row_ = 0;
    std::uint32_t threshold_ = 0;
    A scale_ = 1;
};

}  // namespace cleave::kernels

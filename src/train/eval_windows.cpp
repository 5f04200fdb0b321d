#include "train/eval_windows.h"

#include "base/error.h"
#include "engine/functions.h"

namespace cleave {

EvalWindows::EvalWindows(TokenView tokens, std::int64_t context, std::int64_t stride)
    : tokens_(tokens), context_(context), stride_(stride) {
    CLEAVE_CHECK(tokens.size() > 1 && stride >= 1 && stride <= context, "{} tokens, context {}, stride {}",
                 tokens.size(), context, stride);
}

std::int64_t EvalWindows::count() const {
    if (labels() <= context_) return 1;
    return 1 + (labels() - context_ + stride_ - 1) / stride_;
}

void EvalWindows::fill(RowRange rows, Samples& samples) const {
    samples.first_row = rows.first;
    samples.tokens.clear();
    samples.labels.clear();
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
        const std::int64_t begin = row * stride_;
        const std::int64_t end = row < count() ? labels() : 0;  // of the tokens that have one after them
        const std::int64_t first_counted = row == 0 ? 0 : begin + context_ - stride_;
        for (std::int64_t i = begin; i < begin + context_; ++i) {
            const bool counted = i >= first_counted && i < end;
            samples.tokens.push_back(i < end ? tokens_[static_cast<std::size_t>(i)] : 0);
            samples.labels.push_back(counted ? tokens_[static_cast<std::size_t>(i + 1)]
                                             : static_cast<Token>(kIgnoredLabel));
        }
    }
}

}  // namespace cleave

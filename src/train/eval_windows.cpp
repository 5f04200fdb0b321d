#include "train/eval_windows.h"

#include <algorithm>

#include "base/error.h"
#include "engine/functions.h"

namespace cleave {

EvalWindows::EvalWindows(TokenView tokens, std::int64_t context, std::int64_t stride,
                         std::vector<std::int64_t> document_starts)
    : tokens_(tokens), context_(context), stride_(stride), document_starts_(std::move(document_starts)) {
    CLEAVE_CHECK(tokens.size() > 1 && stride >= 1 && stride <= context, "{} tokens, context {}, stride {}",
                 tokens.size(), context, stride);
}

std::int64_t EvalWindows::count() const {
    if (pairs() <= context_) return 1;
    return 1 + (pairs() - context_ + stride_ - 1) / stride_;
}

std::int64_t EvalWindows::labels() const {
    return pairs() - std::max<std::int64_t>(static_cast<std::int64_t>(document_starts_.size()) - 1, 0);
}

void EvalWindows::fill(RowRange rows, Samples& samples) const {
    samples.first_row = rows.first;
    samples.clear();
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
        const std::int64_t begin = row * stride_;
        const std::int64_t end = row < count() ? pairs() : 0;  // of the tokens that have one after them
        const std::int64_t first_counted = row == 0 ? 0 : begin + context_ - stride_;
        auto next = std::upper_bound(document_starts_.begin(), document_starts_.end(), begin);
        std::int64_t first = begin;  // of what is seen: of the window, or of the document
        for (std::int64_t i = begin; i < begin + context_; ++i) {
            if (next != document_starts_.end() && *next == i) {
                first = i;
                ++next;
            }
            const bool other_document = next != document_starts_.end() && *next == i + 1;
            const bool counted = i >= first_counted && i < end && !other_document;
            samples.tokens.push_back(i < end ? tokens_[static_cast<std::size_t>(i)] : 0);
            samples.labels.push_back(counted ? tokens_[static_cast<std::size_t>(i + 1)]
                                             : static_cast<Token>(kIgnoredLabel));
            if (!document_starts_.empty()) samples.first_visible.push_back(static_cast<std::int32_t>(first - begin));
        }
    }
}

}  // namespace cleave

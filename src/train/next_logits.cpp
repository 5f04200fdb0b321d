#include "train/next_logits.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/words.h"
#include "train/safetensors_values.h"

namespace cleave {

namespace {

constexpr std::int64_t kRowUnit = 64;  // rows are filled up to a multiple, so that products have few shapes

bool cuts_tokens(const Layout& stream) {
    return std::any_of(stream.begin(), stream.end(), [](const Layout::Entry& entry) {
        return entry.placement.is(Placement::Kind::S) && entry.placement.dim == 1;
    });
}

}  // namespace

std::int64_t window_begin(std::int64_t tokens, std::int64_t positions) {
    if (tokens <= positions) return 0;
    const std::int64_t half = (positions + 1) / 2;
    return (tokens - positions + half - 1) / half * half;
}

NextLogits::NextLogits(Engine& engine, Transformer& model, std::int64_t most_tokens, bool cached)
    : engine_(engine), model_(model), window_(model.config().most_positions()) {
    if (cached && !cuts_tokens(model.layouts().stream)) cache_.emplace(engine, std::min(window_, most_tokens));
}

std::span<const double> NextLogits::after(std::span<const std::int32_t> text, std::int64_t vocabulary) {
    const auto size = static_cast<std::int64_t>(text.size());
    const std::int64_t begin = window_begin(size, window_);
    const auto part = [&](std::int64_t first) { return text.subspan(static_cast<std::size_t>(first)); };
    if (cache_) {
        if (begin != begin_) held_ = 0;
        begin_ = begin;
        CLEAVE_CHECK(begin + held_ < size, "a text of {} tokens after one of {}", size, begin + held_);
        const auto fresh = part(begin + held_);
        read(pass(fresh, static_cast<std::int64_t>(fresh.size()) - 1, {held_, &*cache_}));
        held_ = size - begin;
    } else {
        const auto seen = part(begin);
        row_.assign(seen.begin(), seen.end());
        const auto filled = (size - begin + kRowUnit - 1) / kRowUnit * kRowUnit;
        row_.resize(static_cast<std::size_t>(std::min(filled, window_)), 0);  // causal: what stands behind is not seen
        read(pass(row_, size - begin - 1, {}));
    }
    const std::span<const double> drawn = std::span(logits_).first(static_cast<std::size_t>(vocabulary));
    if (!std::all_of(drawn.begin(), drawn.end(), [](double x) { return std::isfinite(x); }))
        throw RunError("the model's output is not finite after {} of text", counted(size, "token"));
    return drawn;
}

Tensor NextLogits::pass(std::span<const std::int32_t> tokens, std::int64_t at, const SequenceContext& context) {
    // A row for every rank that the batch is cut over, so that each has one; all rows are alike.
    std::int64_t rows = 1;
    for (const auto& [axis, placement] : model_.layouts().tokens)
        if (placement == S(0)) rows *= engine_.mesh().size(axis);
    const Tensor input = engine_.alloc("tokens", {rows, static_cast<std::int64_t>(tokens.size())},
                                       model_.layouts().tokens, DType::i32, MemoryKind::activations);
    engine_.write(input, std::as_bytes(tokens));
    Tape tape(engine_, false);
    return model_.logits_at(tape, input, at, context);
}

void NextLogits::read(const Tensor& logits) {
    bytes_.resize(static_cast<std::size_t>(logits.view().bytes()));
    logits_.resize(static_cast<std::size_t>(logits.view().elements()));
    engine_.read_bytes(logits, bytes_);
    convert_values(stored_as(logits.dtype()), bytes_, DType::f64, logits_.data());
}

}  // namespace cleave

#include "train/sampler.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "engine/functions.h"

namespace cleave {
namespace {

constexpr auto kIgnoredToken = static_cast<Token>(kIgnoredLabel);

}  // namespace

RowRange microbatch_rows(std::int64_t batch, int dp, int dp_rank, std::int64_t microbatch, std::int64_t index) {
    const std::int64_t share = batch / dp;
    CLEAVE_CHECK(share * dp == batch && dp_rank >= 0 && dp_rank < dp, "{} rows over {} ranks, rank {}", batch, dp,
                 dp_rank);
    CLEAVE_CHECK(index >= 0 && (index + 1) * microbatch <= share, "microbatch {} of {} rows in {}", index, microbatch,
                 share);
    return {dp_rank * share + index * microbatch, microbatch};
}

Sampler::Source::Source(const Dataset& dataset, Part part, bool separate_documents)
    : tokens(dataset.tokens(part)), mask(dataset.mask(part)) {
    if (separate_documents) document_starts = dataset.document_starts(part);
}

Sampler::Sampler(const Dataset& dataset, std::int64_t context, std::int64_t seed, bool separate_documents)
    : train_(dataset, Part::train, separate_documents),
      validation_(dataset, Part::validation, separate_documents),
      separate_documents_(separate_documents),
      context_(context),
      seed_(seed) {}

void Sampler::training(std::int64_t step, RowRange rows, Samples& samples) const {
    draw(Part::train, "data", step, rows, samples);
}

void Sampler::evaluation(Part part, std::int64_t evaluation, RowRange rows, Samples& samples) const {
    draw(part, part == Part::train ? "evaluation/train" : "evaluation/validation", evaluation, rows, samples);
}

void Sampler::draw(Part part, std::string_view name, std::int64_t step, RowRange rows, Samples& samples) const {
    const Source& from = source(part);
    const std::int64_t positions = from.size() - context_;
    CLEAVE_CHECK(positions > 0, "{} tokens in the {} part, sequences of {}", from.size(), name_of(part), context_);
    const RandomStream stream(static_cast<std::uint64_t>(seed_), name, static_cast<std::uint64_t>(step));
    samples.first_row = rows.first;
    samples.clear();
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
        const auto start = stream.below(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(positions));
        append(from, static_cast<std::int64_t>(start), samples);
    }
}

std::int64_t Sampler::cover_labels(Part part) const {
    return std::max<std::int64_t>(source(part).size() - 1, 0);
}

std::int64_t Sampler::cover_rows(Part part) const {
    return (cover_labels(part) + context_ - 1) / context_;
}

void Sampler::cover(Part part, RowRange rows, Samples& samples) const {
    samples.first_row = rows.first;
    samples.clear();
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row)
        append(source(part), row * context_, samples);
}

void Sampler::append(const Source& from, std::int64_t start, Samples& samples) const {
    const auto& starts = from.document_starts;
    auto next = std::upper_bound(starts.begin(), starts.end(), start);  // the document that begins behind this token
    std::int64_t first = start;
    for (std::int64_t i = start; i < start + context_; ++i) {
        if (next != starts.end() && *next == i) {
            first = i;
            ++next;
        }
        const std::int64_t label = i + 1;
        const bool inside = label < from.size();
        const bool other_document = next != starts.end() && *next == label;
        const bool counted = inside && !other_document && from.is_label(label);
        samples.tokens.push_back(inside ? from.tokens[static_cast<std::size_t>(i)] : 0);
        samples.labels.push_back(counted ? from.tokens[static_cast<std::size_t>(label)] : kIgnoredToken);
        if (separate_documents_) samples.first_visible.push_back(static_cast<std::int32_t>(first - start));
    }
}

}  // namespace cleave

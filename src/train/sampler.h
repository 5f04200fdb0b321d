// Which tokens a step learns from. The rows of a global batch are numbered 0 .. batch - 1 whatever the layout; row i of
// step s starts at RandomStream(seed, "data", s).below(i, positions): a function of (seed, step, i) only, so that a
// resumed run, or one on other ranks, sees the same samples, and a rank draws and reads its own rows alone. Labels are
// the inputs shifted by one, taken before anything is cut; a token that the data's mask does not make a label is none.
// Where documents are separated, rows are drawn as always and may hold parts of several documents: each token says
// which one it sees first (that of its own document), and the first token of a document, of which nothing could be
// known, is no label (Megatron's --reset-attention-mask, --reset-position-ids and --eod-mask-loss together). Thread
// rule: immutable; any number of threads may draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/dataset.h"
#include "train/samples.h"

namespace cleave {

// Rows of a global batch, one after the other.
struct RowRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

// The rows of one rank's forward pass: rank d of dp has the contiguous rows [d batch / dp, (d + 1) batch / dp),
// microbatch m of it the m-th `microbatch` of those.
RowRange microbatch_rows(std::int64_t batch, int dp, int dp_rank, std::int64_t microbatch, std::int64_t index);

class Sampler {
  public:
    // Each part that is drawn from needs at least context + 1 tokens (job_check says so to the user).
    Sampler(const Dataset& dataset, std::int64_t context, std::int64_t seed, bool separate_documents = false);

    // Rows of training step `step`.
    void training(std::int64_t step, RowRange rows, Samples& samples) const;
    // Rows of the random sample that evaluation number `evaluation` takes of `part`; the same for every layout.
    void evaluation(Part part, std::int64_t evaluation, RowRange rows, Samples& samples) const;
    // The part from its first to its last token, `context` labels a row: every token but the first is predicted exactly
    // once. The last row's missing labels are -100, and so are whole rows at or after cover_rows(). Labels that are
    // masked are counted by cover_labels().
    std::int64_t cover_rows(Part part) const;
    std::int64_t cover_labels(Part part) const;
    void cover(Part part, RowRange rows, Samples& samples) const;

    std::int64_t context() const { return context_; }

  private:
    struct Source {
        Source(const Dataset& dataset, Part part, bool separate_documents);
        std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
        bool is_label(std::int64_t at) const {
            return mask.empty() || mask[static_cast<std::size_t>(at)] != std::byte{};
        }

        TokenView tokens;
        std::span<const std::byte> mask;            // empty: every token is a label
        std::vector<std::int64_t> document_starts;  // empty: not separated
    };
    const Source& source(Part part) const { return part == Part::train ? train_ : validation_; }
    // Appends the row whose inputs start at `start`, as far as the part goes.
    void append(const Source& from, std::int64_t start, Samples& samples) const;
    void draw(Part part, std::string_view name, std::int64_t step, RowRange rows, Samples& samples) const;

    Source train_;
    Source validation_;
    bool separate_documents_;
    std::int64_t context_;
    std::int64_t seed_;
};

}  // namespace cleave

// The windows through which a model sees a long text that is evaluated. Of `context` tokens a window predicts the next
// after each; windows begin `stride` tokens apart. The first window counts all its predictions, every other one its
// last `stride` alone, whatever comes before being context: every token but the first of the text is counted exactly
// once, and from the second window on it is predicted from at least context - stride + 1 tokens. These are the windows
// of the Hugging Face guide to perplexity with max_length = context + 1.
//
// Where documents are told apart the windows are the same, but a token sees its own document alone, and the first token
// of a document, of which nothing could be known, is not counted: as in training. Thread rule: immutable.
#pragma once

#include <vector>

#include "train/sampler.h"

namespace cleave {

class EvalWindows {
  public:
    // At least two tokens; stride from 1 to context. `document_starts`: rising from 0; empty: one document.
    EvalWindows(TokenView tokens, std::int64_t context, std::int64_t stride,
                std::vector<std::int64_t> document_starts = {});

    std::int64_t count() const;
    std::int64_t labels() const;  // tokens that are counted
    // Windows as rows; what is not counted has the label -100, and so has all of a row at or after count().
    void fill(RowRange rows, Samples& samples) const;

  private:
    std::int64_t pairs() const { return static_cast<std::int64_t>(tokens_.size()) - 1; }  // of neighbours

    TokenView tokens_;
    std::int64_t context_;
    std::int64_t stride_;
    std::vector<std::int64_t> document_starts_;
};

}  // namespace cleave

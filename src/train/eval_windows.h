// The windows through which a model sees a long text that is evaluated. Of `context` tokens a window predicts the next
// after each; windows begin `stride` tokens apart. The first window counts all its predictions, every other one its
// last `stride` alone, whatever comes before being context: every token but the first of the text is counted exactly
// once, and from the second window on it is predicted from at least context - stride + 1 tokens. These are the windows
// of the Hugging Face guide to perplexity with max_length = context + 1. Thread rule: immutable.
#pragma once

#include "train/sampler.h"

namespace cleave {

class EvalWindows {
  public:
    // At least two tokens; stride from 1 to context.
    EvalWindows(TokenView tokens, std::int64_t context, std::int64_t stride);

    std::int64_t count() const;
    std::int64_t labels() const { return static_cast<std::int64_t>(tokens_.size()) - 1; }  // tokens that are counted
    // Windows as rows; what is not counted has the label -100, and so has all of a row at or after count().
    void fill(RowRange rows, Samples& samples) const;

  private:
    TokenView tokens_;
    std::int64_t context_;
    std::int64_t stride_;
};

}  // namespace cleave

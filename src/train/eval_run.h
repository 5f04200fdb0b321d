// `cleave eval`: the loss of a model on a text, every token of it but the first predicted exactly once
// (train/eval_windows.h). What it reports:
//   loss           the mean of -log p over the predicted tokens, in nats: total / tokens
//   perplexity     exp(loss)
//   bits per byte  total / ln 2 / bytes of the text, the first token's too, so that tokenizers can be compared
// Documents are not told apart: a window goes over their borders. Thread rule: the main thread.
#pragma once

#include "train/eval_options.h"

namespace cleave {

// Returns the program's exit code; failures are thrown (base/error.h), a loss that is not finite as a RunError.
int run_evaluation(const EvalOptions& options);

}  // namespace cleave

// The job that a command works on where it needs no text: a run file, or a model by name.
// Thread rule: reads files.
#pragma once

#include <string>
#include <vector>

#include "train/job.h"

namespace cleave::cli {

// As training would have it: with the shape of model.weights, and the vocabulary of the run's text; where it names
// none, of `vocabulary` tokens (0: the job must say). A model by name has a sequence for each rank that shares the
// batch. Throws UserError with all problems of the job on `ranks` ranks.
Job model_job(const std::string& model, const std::vector<std::string>& sets, int ranks, std::int64_t vocabulary = 0);

// What stands for the vocabulary that nobody names: a prime, so that ranks do not divide it.
inline constexpr std::int64_t kSomeVocabulary = 509;

}  // namespace cleave::cli

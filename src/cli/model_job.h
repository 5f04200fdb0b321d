// The job that a command works on where it needs no text: a run file, or a model by name.
// Thread rule: reads files.
#pragma once

#include <string>
#include <vector>

#include "config/run_file.h"
#include "train/nearest_layouts.h"

namespace cleave::cli {

// As training would have it: with the shape of model.weights, and the vocabulary of the run's text; where it names
// none, of `vocabulary` tokens (0: the job must say). A model by name has a sequence for each rank that shares the
// batch.
struct ModelJob {
    std::string model;
    std::vector<std::string> sets;
    std::vector<TypedFlag> flags{};
    int ranks = 1;
    RanksFrom ranks_from = RanksFrom::given;
    std::int64_t vocabulary = 0;
};
// Throws UserError with all problems of the job on so many ranks, and layouts that would work.
Job model_job(const ModelJob& asked);

// Those layouts, to stand below the problems that check() has found: as the options that were typed, or --set.
std::string layouts_instead(const RunFile& file, int ranks, RanksFrom from, bool with_ranks = false);

// What stands for the vocabulary that nobody names: a prime, so that ranks do not divide it.
inline constexpr std::int64_t kSomeVocabulary = 509;

}  // namespace cleave::cli

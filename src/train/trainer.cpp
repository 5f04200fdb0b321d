#include "train/trainer.h"

#include "base/error.h"

namespace cleave {

int run_training(const TrainOptions&) {
    throw UserError("`cleave train` is not part of this build yet");
}

int run_generation(const GenerateOptions&) {
    throw UserError("`cleave generate` is not part of this build yet");
}

}  // namespace cleave

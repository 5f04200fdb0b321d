// Errors that can be planted, each one that trains on without a word. The tests that must find them are built with
// CLEAVE_MUTATIONS (tests/mutation); elsewhere mutated() is false and costs nothing.
// Thread rule: set while no rank runs.
#pragma once

#include <cstdint>

namespace cleave {

enum class Mutation : std::uint8_t {
    none,
    input_gradient_not_summed,  // Megatron's f without its backward: tensor parallelism, I -> R
    gain_not_summed,            // gradients of sequence parallelism's norms, P over tp
    tied_gradient_dropped,      // of the token table's two uses the first
    vocabulary_not_masked,      // a token of another rank's words looks up a row of this one's
    other_owner_not_added,      // of a parameter that two stages of a pipeline own
    loss_scaled_per_rank,       // the mean over a rank's labels, not over the batch's
};

#ifdef CLEAVE_MUTATIONS
inline Mutation planted_mutation = Mutation::none;  // NOLINT: set by a test, read by its ranks
inline bool mutated(Mutation mutation) {
    return planted_mutation == mutation;
}
#else
constexpr bool mutated(Mutation) {
    return false;
}
#endif

}  // namespace cleave

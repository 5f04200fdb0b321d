// Differentiable functions: each launches its forward kernel and records its backward. Shapes: b batch, t tokens,
// c channels (width), h heads, d channels of a head, v vocabulary; m.. and n.. any dims.
// Thread rule: one rank's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tape.h"
#include "kernels/rotary_frequencies.h"

namespace cleave {

// How a weight lies: GPT-2's Conv1D is [in.., out..], everybody else's Linear is [out.., in..].
enum class WeightForm : std::uint8_t { in_out, out_in };

// A tensor of which chunks of rows may be on their way (transition_in_chunks), for products with weights, the first of
// which takes them as they come. Every tensor is one that is there.
class Arriving {
  public:
    struct State;
    // NOLINTNEXTLINE(google-explicit-constructor): callers pass tensors
    Arriving(Tensor value) : value_(std::move(value)) {}
    Arriving(Tensor value, std::shared_ptr<State> state) : value_(std::move(value)), state_(std::move(state)) {}
    Tensor whole() const;  // when all has come

  private:
    friend Tensor linear(Tape& tape, const Arriving& x, Parameter& weight, Parameter* bias, WeightForm form,
                         int in_dims, std::string_view name);
    Tensor value_;
    std::shared_ptr<State> state_;
};

// x [m.. in..], weight -> [m.. out..]; `in_dims` dims of x are contracted. bias [out..] or null; where the contracted
// dims are cut, so that the result is P, it is I along those axes and added on the first rank.
Tensor linear(Tape& tape, const Arriving& x, Parameter& weight, Parameter* bias, WeightForm form, int in_dims,
              std::string_view name);
// The same in the layout `to`: each of `chunks` chunks of rows is on its way while the next one's product runs, and in
// backward the gradient comes in chunks.
Tensor linear_to(Tape& tape, const Tensor& x, Parameter& weight, Parameter* bias, WeightForm form, int in_dims,
                 std::string_view name, const Layout& to, int chunks);

// tokens [b t], table [v c] -> [b t c]
Tensor embedding(Tape& tape, const Tensor& tokens, Parameter& table, std::string_view name);
// x [b t c] + row first_position + t of table [p c]
Tensor add_positions(Tape& tape, const Tensor& x, Parameter& table, std::string_view name,
                     std::int64_t first_position = 0);
// x [b t c] + row t - first_visible[b t] of table: positions begin anew with each document (AttentionMask).
Tensor add_document_positions(Tape& tape, const Tensor& x, const Tensor& first_visible, Parameter& table,
                              std::string_view name);

Tensor layer_norm(Tape& tape, const Tensor& x, Parameter& gain, Parameter& bias, double epsilon, std::string_view name);
// Also of each head's channels, x [b t h d] and gain [d]: all heads share the gain, which is R along an axis that cuts
// them, its gradient P.
Tensor rms_norm(Tape& tape, const Tensor& x, Parameter& gain, double epsilon, std::string_view name);

Tensor gelu(Tape& tape, const Tensor& x, std::string_view name);
Tensor relu(Tape& tape, const Tensor& x, std::string_view name);
// silu(gate) * up
Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up, std::string_view name);
Tensor add(Tape& tape, const Tensor& a, const Tensor& b, std::string_view name);

// x [b ..] with each element dropped or scaled (kernels/dropout.h), where the tape has randomness; otherwise x itself.
// `name` names the place and must occur once in a model. keep_mask: one byte an element is kept for backward, which
// otherwise draws again.
struct DropoutOptions {
    double probability = 0;
    bool keep_mask = false;
};
Tensor dropout(Tape& tape, const Tensor& x, const DropoutOptions& options, std::string_view name);

// x [b t h d], rotated by its global position in the sequence, first_position + t.
Tensor rotary(Tape& tape, const Tensor& x, const kernels::RotaryFrequencies& frequencies, std::string_view name,
              std::int64_t first_position = 0);

// fused: without the matrix of probabilities, memory linear in the sequence. materialised: with it, and with what the
// dropout of it keeps (kernels/materialised_attention.h); no bits in common.
enum class AttentionKind : std::uint8_t { fused, materialised };
// Which of the keys up to its own a query sees. window: the last so many, 0: all. first_visible (i32 [b t], or none):
// none before this one, where the query's document begins (kernels/attention.h).
struct AttentionMask {
    std::int64_t window = 0;
    Tensor first_visible;
};
// Of the probabilities, where the tape has randomness. `place` names it and must occur once in a model.
struct ProbabilityDropout {
    double probability = 0;
    std::string place;
    bool keep_mask = false;  // materialised: as DropoutOptions
};
struct AttentionOptions {
    AttentionKind kind = AttentionKind::fused;
    ProbabilityDropout dropout{};
};
// Causal attention, scale 1/sqrt(d). qkv [b t 3 h d] -> [b t h d]
Tensor attention_packed(Tape& tape, const Tensor& qkv, std::string_view name, const AttentionMask& mask = {},
                        const AttentionOptions& options = {});
// q [b t h d] or [b t g r d], k and v [b t g d], g divides h -> as q
Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, std::string_view name,
                 const AttentionMask& mask = {}, const AttentionOptions& options = {});

// logits [.. v], v may be cut, labels [..] (kIgnoredLabel: not counted) -> scale x the sum of -log
// softmax(logits)[label], a scalar. The backward overwrites the logits: nothing may read them after it.
inline constexpr std::int64_t kIgnoredLabel = -100;
Tensor cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels, double scale, std::string_view name);

// The same with the z-loss of PaLM (kernels/loss.h): z_loss x scale x the sum of the squared log-sum-exp over the
// labels that are counted.
struct Loss {
    Tensor objective;  // what has a gradient: both of
    Tensor cross_entropy;
    Tensor z_loss;  // empty where the coefficient is 0
};
Loss cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels, double scale, double z_loss,
                   std::string_view name);

// `block`, a part of the program from one tensor to one, keeping only x where the tape recomputes in full: its backward
// runs it again and records it then. `parameters`: all that it uses, once each.
using Segment = std::function<Tensor(Tape& tape, const Tensor& x)>;
Tensor recomputed(Tape& tape, const Tensor& x, std::vector<Parameter*> parameters, Segment block);

// Differentiable transition; its backward is the dual.
Tensor transition(Tape& tape, const Tensor& x, const Layout& to);
// The same, made again in backward where the result is needed there, so that x alone is kept: its bytes travel once
// more.
Tensor transition_again(Tape& tape, const Tensor& x, const Layout& to);
// Either of them (`again`) in chunks of rows, for linear(): the chunks are on their way when it returns. In backward
// the gradient's chunks go out while the product that has read first makes the next ones.
Arriving transition_in_chunks(Tape& tape, const Tensor& x, const Layout& to, int chunks, bool again);

// f32 for f32 and bf16, f64 for f64.
constexpr DType accumulator_of(DType dtype) {
    return dtype == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace cleave

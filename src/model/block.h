// Transformer blocks: x + attention(norm(x)), then x + mlp(norm(x)) (pre-norm). They read like the paper; what is cut
// over which ranks is in the layouts of their parameters and inputs, not here. Shapes: b batch, t tokens, c width, h
// heads, g key-value heads, r heads that share one of them, d head width, f mlp width. Thread rule: one rank's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/functions.h"
#include "model/key_value_cache.h"
#include "model/model_config.h"
#include "parallel/layouts.h"

namespace cleave {

// What blocks must know of a sequence beside its values. The default is a whole sequence from its first token.
struct SequenceContext {
    std::int64_t first_position = 0;  // of the first token: how many of the sequence come before it
    KeyValueCache* cache = nullptr;   // with the keys and values of those; without one there are none
    // i32 [b t], where the document of each token begins in its row; none: the row is one document. For a whole
    // sequence alone. Rotary positions are relative and need not begin anew; learned ones do.
    Tensor first_visible = {};
};

class Block {
  public:
    Block(const ModelConfig& config, const ModelLayouts& layouts, std::string prefix);
    virtual ~Block() = default;
    Tensor forward(Tape& tape, const Tensor& x, const SequenceContext& context);  // [b t c] -> [b t c]
    virtual std::vector<Parameter*> parameters() = 0;                             // in the order of use

  protected:
    // What is added to the residual stream, before dropout; both begin with their norm, go into the products and end
    // out of them.
    virtual Tensor attention_branch(Tape& tape, const Tensor& x, const SequenceContext& context) = 0;
    virtual Tensor mlp_branch(Tape& tape, const Tensor& x) = 0;

    // The last matrix of a branch, whose sum is a part of the stream.
    Tensor out_of_products(Tape& tape, const Tensor& x, Parameter& weight, Parameter* bias, WeightForm form,
                           int in_dims, std::string_view name) const;

    const ModelLayouts layouts_;
    const std::string prefix_;  // of its parameters' names
    const double epsilon_;
    const std::int64_t window_;
    const AttentionOptions attention_;

  private:
    const DropoutOptions dropout_;
};

// Radford et al. 2019, as in Hugging Face's modeling_gpt2: `prefix` is "transformer.h.<layer>.".
std::unique_ptr<Block> make_gpt2_block(const ModelConfig& config, const ModelLayouts& layouts,
                                       const std::string& prefix);
// Touvron et al. 2023, as in Hugging Face's modeling_llama, and with qkv_bias and qk_norm as in its modeling_qwen2 and
// modeling_qwen3: `prefix` is "model.layers.<layer>.".
std::unique_ptr<Block> make_llama_block(const ModelConfig& config, const ModelLayouts& layouts,
                                        const std::string& prefix);

// From the stream to what the first matrices of a branch read, once for all of them.
Arriving into_products(Tape& tape, const Tensor& normed, const ModelLayouts& layouts);

// Declares a parameter: matrices and tables decay, norms and biases do not.
Parameter make_weight(std::string name, const Shape& shape, const Layout& layout, double deviation);
Parameter make_gain(std::string name, std::int64_t width, const Layout& layout);
Parameter make_bias(std::string name, const Shape& shape, const Layout& layout);

// The deviation of a projection into the residual stream: each block adds two of them (Radford et al. 2019,
// section 2.3).
double residual_deviation(const ModelConfig& config);

}  // namespace cleave

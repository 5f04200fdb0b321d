// GPT-2's block (model/block.h): LayerNorm, fused QKV, GELU, biases everywhere.
#include "model/block.h"

namespace cleave {

namespace {

class Gpt2Block final : public Block {
  public:
    Gpt2Block(const ModelConfig& c, const ModelLayouts& at, const std::string& prefix)
        : Block(c, at, prefix),
          ln_1_gain_(make_gain(prefix + "ln_1.weight", c.width, at.stream_parameter)),
          ln_1_bias_(make_bias(prefix + "ln_1.bias", {c.width}, at.stream_parameter)),
          qkv_(make_weight(prefix + "attn.c_attn.weight", {c.width, 3, c.heads, c.head_channels()}, at.cut(2),
                           c.initial_deviation)),
          qkv_bias_(make_bias(prefix + "attn.c_attn.bias", {3, c.heads, c.head_channels()}, at.cut(1))),
          out_(make_weight(prefix + "attn.c_proj.weight", {c.heads, c.head_channels(), c.width}, at.cut(0),
                           residual_deviation(c))),
          out_bias_(make_bias(prefix + "attn.c_proj.bias", {c.width}, at.sum_parameter)),
          ln_2_gain_(make_gain(prefix + "ln_2.weight", c.width, at.stream_parameter)),
          ln_2_bias_(make_bias(prefix + "ln_2.bias", {c.width}, at.stream_parameter)),
          up_(make_weight(prefix + "mlp.c_fc.weight", {c.width, c.hidden_mlp()}, at.cut(1), c.initial_deviation)),
          up_bias_(make_bias(prefix + "mlp.c_fc.bias", {c.hidden_mlp()}, at.cut(0))),
          down_(make_weight(prefix + "mlp.c_proj.weight", {c.hidden_mlp(), c.width}, at.cut(0), residual_deviation(c))),
          down_bias_(make_bias(prefix + "mlp.c_proj.bias", {c.width}, at.sum_parameter)) {}

    std::vector<Parameter*> parameters() override {
        return {&ln_1_gain_, &ln_1_bias_, &qkv_, &qkv_bias_, &out_,  &out_bias_,
                &ln_2_gain_, &ln_2_bias_, &up_,  &up_bias_,  &down_, &down_bias_};
    }

  private:
    static constexpr auto kForm = WeightForm::in_out;  // GPT-2's Conv1D

    Tensor attention_branch(Tape& tape, const Tensor& x, const SequenceContext& context) override {
        const Tensor normed = layer_norm(tape, x, ln_1_gain_, ln_1_bias_, epsilon_, "ln_1");
        const Tensor qkv =
            linear(tape, into_products(tape, normed, layouts_), qkv_, &qkv_bias_, kForm, 1, "qkv");  // [b t 3 h d]
        const Tensor mixed = attend(tape, qkv, context);                                             // [b t h d]
        return out_of_products(tape, mixed, out_, &out_bias_, kForm, 2, "attention projection");     // [b t c]
    }

    Tensor attend(Tape& tape, const Tensor& qkv, const SequenceContext& context) {
        const AttentionMask mask{window_, context.first_visible};
        if (context.cache == nullptr) return attention_packed(tape, qkv, "attention", mask, attention_);
        constexpr int kPacked = 2;  // the dim that holds q, k and v
        const auto seen =
            context.cache->extend(prefix_, context.first_position, qkv.select(kPacked, 1), qkv.select(kPacked, 2));
        return attention(tape, qkv.select(kPacked, 0), seen.keys, seen.values, "attention", mask, attention_);
    }

    Tensor mlp_branch(Tape& tape, const Tensor& x) override {
        const Tensor normed = layer_norm(tape, x, ln_2_gain_, ln_2_bias_, epsilon_, "ln_2");
        const Tensor hidden =
            linear(tape, into_products(tape, normed, layouts_), up_, &up_bias_, kForm, 1, "mlp up");  // [b t f]
        return out_of_products(tape, gelu(tape, hidden, "gelu"), down_, &down_bias_, kForm, 1, "mlp down");
    }

    Parameter ln_1_gain_, ln_1_bias_;
    Parameter qkv_, qkv_bias_;
    Parameter out_, out_bias_;
    Parameter ln_2_gain_, ln_2_bias_;
    Parameter up_, up_bias_;
    Parameter down_, down_bias_;
};

}  // namespace

std::unique_ptr<Block> make_gpt2_block(const ModelConfig& config, const ModelLayouts& layouts,
                                       const std::string& prefix) {
    return std::make_unique<Gpt2Block>(config, layouts, prefix);
}

}  // namespace cleave

// Llama's block (model/block.h): RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases.
#include "model/block.h"

namespace cleave {

namespace {

class LlamaBlock final : public Block {
  public:
    LlamaBlock(const ModelConfig& c, const ModelLayouts& at, const std::string& prefix)
        : prefix_(prefix),
          epsilon_(c.norm_epsilon),
          dropout_{c.dropout, c.keep_dropout_masks},
          rope_base_(c.rope_base),
          attention_gain_(make_gain(prefix + "input_layernorm.weight", c.width, at)),
          q_(make_weight(prefix + "self_attn.q_proj.weight", {c.heads, c.head_width(), c.width}, at,
                         c.initial_deviation)),
          k_(make_weight(prefix + "self_attn.k_proj.weight", {c.key_value_heads(), c.head_width(), c.width}, at,
                         c.initial_deviation)),
          v_(make_weight(prefix + "self_attn.v_proj.weight", {c.key_value_heads(), c.head_width(), c.width}, at,
                         c.initial_deviation)),
          out_(make_weight(prefix + "self_attn.o_proj.weight", {c.width, c.heads, c.head_width()}, at,
                           residual_deviation(c))),
          mlp_gain_(make_gain(prefix + "post_attention_layernorm.weight", c.width, at)),
          gate_(make_weight(prefix + "mlp.gate_proj.weight", {c.hidden_mlp(), c.width}, at, c.initial_deviation)),
          up_(make_weight(prefix + "mlp.up_proj.weight", {c.hidden_mlp(), c.width}, at, c.initial_deviation)),
          down_(make_weight(prefix + "mlp.down_proj.weight", {c.width, c.hidden_mlp()}, at, residual_deviation(c))) {}

    Tensor forward(Tape& tape, const Tensor& x) override {
        const Tensor mixed = dropout(tape, attention_branch(tape, x), dropout_, prefix_ + "attention dropout");
        const Tensor after_attention = add(tape, x, mixed, "residual");
        const Tensor added = dropout(tape, mlp_branch(tape, after_attention), dropout_, prefix_ + "mlp dropout");
        return add(tape, after_attention, added, "residual");
    }

    std::vector<Parameter*> parameters() override {
        return {&attention_gain_, &q_, &k_, &v_, &out_, &mlp_gain_, &gate_, &up_, &down_};
    }

  private:
    static constexpr auto kForm = WeightForm::out_in;

    Tensor attention_branch(Tape& tape, const Tensor& x) {
        const Tensor normed = rms_norm(tape, x, attention_gain_, epsilon_, "attention norm");
        const Tensor q =
            rotary(tape, linear(tape, normed, q_, nullptr, kForm, 1, "q"), rope_base_, "q rotated");  // [b t h d]
        const Tensor k =
            rotary(tape, linear(tape, normed, k_, nullptr, kForm, 1, "k"), rope_base_, "k rotated");  // [b t g d]
        const Tensor v = linear(tape, normed, v_, nullptr, kForm, 1, "v");                            // [b t g d]
        return linear(tape, attention(tape, q, k, v, "attention"), out_, nullptr, kForm, 2, "attention projection");
    }

    Tensor mlp_branch(Tape& tape, const Tensor& x) {
        const Tensor normed = rms_norm(tape, x, mlp_gain_, epsilon_, "mlp norm");
        const Tensor gate = linear(tape, normed, gate_, nullptr, kForm, 1, "mlp gate");  // [b t f]
        const Tensor up = linear(tape, normed, up_, nullptr, kForm, 1, "mlp up");        // [b t f]
        return linear(tape, swiglu(tape, gate, up, "swiglu"), down_, nullptr, kForm, 1, "mlp down");
    }

    std::string prefix_;
    double epsilon_;
    DropoutOptions dropout_;
    double rope_base_;
    Parameter attention_gain_;
    Parameter q_, k_, v_, out_;
    Parameter mlp_gain_;
    Parameter gate_, up_, down_;
};

}  // namespace

std::unique_ptr<Block> make_llama_block(const ModelConfig& config, const ModelLayouts& layouts,
                                        const std::string& prefix) {
    return std::make_unique<LlamaBlock>(config, layouts, prefix);
}

}  // namespace cleave

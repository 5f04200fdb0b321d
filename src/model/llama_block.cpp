// Llama's block (model/block.h): RMSNorm, rotary positions, grouped-query attention, SwiGLU; where the configuration
// says so, biases on Q, K and V (Qwen2) and a norm of each head's Q and K (Qwen3).
#include <optional>

#include "model/block.h"

namespace cleave {

namespace {

class LlamaBlock final : public Block {
  public:
    LlamaBlock(const ModelConfig& c, const ModelLayouts& at, const std::string& prefix)
        : Block(c, at, prefix),
          frequencies_(c.rotary),
          attention_gain_(make_gain(prefix + "input_layernorm.weight", c.width, at.stream_parameter)),
          q_(make_projection(prefix + "self_attn.q_proj", {c.key_value_heads(), c.query_group()}, c,
                             at.cut_heads(0, 1))),
          k_(make_projection(prefix + "self_attn.k_proj", {c.key_value_heads()}, c, at.cut_keys(0))),
          v_(make_projection(prefix + "self_attn.v_proj", {c.key_value_heads()}, c, at.cut_keys(0))),
          out_(make_weight(prefix + "self_attn.o_proj.weight",
                           {c.width, c.key_value_heads(), c.query_group(), c.head_channels()}, at.cut_heads(1, 2),
                           residual_deviation(c))),
          mlp_gain_(make_gain(prefix + "post_attention_layernorm.weight", c.width, at.stream_parameter)),
          gate_(
              make_weight(prefix + "mlp.gate_proj.weight", {c.hidden_mlp(), c.width}, at.cut(0), c.initial_deviation)),
          up_(make_weight(prefix + "mlp.up_proj.weight", {c.hidden_mlp(), c.width}, at.cut(0), c.initial_deviation)),
          down_(make_weight(prefix + "mlp.down_proj.weight", {c.width, c.hidden_mlp()}, at.cut(1),
                            residual_deviation(c))) {
        if (!c.qk_norm) return;
        // All heads share the gain, each rank uses it for heads of its own.
        const Layout of_heads = along(at.cut_parameter, at.cut_axes, R);
        q_.gain = make_gain(prefix + "self_attn.q_norm.weight", c.head_channels(), of_heads);
        k_.gain = make_gain(prefix + "self_attn.k_norm.weight", c.head_channels(), of_heads);
    }

    std::vector<Parameter*> parameters() override {
        std::vector<Parameter*> all{&attention_gain_};
        for (Projection* projection : {&q_, &k_, &v_}) {
            all.push_back(&projection->weight);
            if (projection->bias) all.push_back(&*projection->bias);
            if (projection->gain) all.push_back(&*projection->gain);
        }
        all.insert(all.end(), {&out_, &mlp_gain_, &gate_, &up_, &down_});
        return all;
    }

  private:
    static constexpr auto kForm = WeightForm::out_in;

    struct Projection {  // of the residual stream to heads
        Parameter weight;
        std::optional<Parameter> bias;
        std::optional<Parameter> gain;  // of the norm over a head's channels
    };

    // `heads`: their dims.
    static Projection make_projection(const std::string& name, Shape heads, const ModelConfig& c,
                                      const Layout& layout) {
        heads.push_back(c.head_channels());
        Projection projection;
        if (c.qkv_bias) projection.bias = make_bias(name + ".bias", heads, layout);
        heads.push_back(c.width);
        projection.weight = make_weight(name + ".weight", heads, layout, c.initial_deviation);
        return projection;
    }

    static Tensor project(Tape& tape, const Arriving& x, Projection& to, const char* name) {  // [b t heads.. d]
        return linear(tape, x, to.weight, to.bias ? &*to.bias : nullptr, kForm, 1, name);
    }

    Tensor normed_and_rotated(Tape& tape, const Arriving& x, Projection& to, std::int64_t first_position,
                              const char* name, const char* norm_name, const char* rotated_name) {
        Tensor heads = project(tape, x, to, name);
        if (to.gain) heads = rms_norm(tape, heads, *to.gain, epsilon_, norm_name);
        return rotary(tape, heads, frequencies_, rotated_name, first_position);
    }

    Tensor attention_branch(Tape& tape, const Tensor& x, const SequenceContext& context) override {
        const std::int64_t first = context.first_position;
        const Arriving in =
            into_products(tape, rms_norm(tape, x, attention_gain_, epsilon_, "attention norm"), layouts_);
        const Tensor q = normed_and_rotated(tape, in, q_, first, "q", "q norm", "q rotated");  // [b t g r d]
        KeyValueCache::KeysAndValues seen{normed_and_rotated(tape, in, k_, first, "k", "k norm", "k rotated"),
                                          project(tape, in, v_, "v")};  // [b t g d]
        if (context.cache != nullptr) seen = context.cache->extend(prefix_, first, seen.keys, seen.values);
        const Tensor mixed =
            attention(tape, q, seen.keys, seen.values, "attention", {window_, context.first_visible}, attention_);
        return out_of_products(tape, mixed, out_, nullptr, kForm, 3, "attention projection");
    }

    Tensor mlp_branch(Tape& tape, const Tensor& x) override {
        const Arriving in = into_products(tape, rms_norm(tape, x, mlp_gain_, epsilon_, "mlp norm"), layouts_);
        const Tensor gate = linear(tape, in, gate_, nullptr, kForm, 1, "mlp gate");  // [b t f]
        const Tensor up = linear(tape, in, up_, nullptr, kForm, 1, "mlp up");        // [b t f]
        return out_of_products(tape, swiglu(tape, gate, up, "swiglu"), down_, nullptr, kForm, 1, "mlp down");
    }

    kernels::RotaryFrequencies frequencies_;
    Parameter attention_gain_;
    Projection q_, k_, v_;
    Parameter out_;
    Parameter mlp_gain_;
    Parameter gate_, up_, down_;
};

}  // namespace

std::unique_ptr<Block> make_llama_block(const ModelConfig& config, const ModelLayouts& layouts,
                                        const std::string& prefix) {
    return std::make_unique<LlamaBlock>(config, layouts, prefix);
}

}  // namespace cleave

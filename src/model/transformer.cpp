#include "model/transformer.h"

#include "kernels/elementwise.h"

namespace cleave {

Transformer::Transformer(Engine& engine, const ModelConfig& config, const ModelLayouts& layouts, DType compute)
    : engine_(engine), config_(config), layouts_(layouts), compute_(compute) {
    const ModelConfig& c = config_;
    const bool gpt2 = c.family == Family::gpt2;
    const std::string root = gpt2 ? "transformer." : "model.";
    const Shape table{c.vocabulary, c.width};
    token_table_ =
        make_weight(root + (gpt2 ? "wte.weight" : "embed_tokens.weight"), table, layouts_, c.initial_deviation);
    if (gpt2)
        position_table_ =
            make_weight(root + "wpe.weight", {c.most_positions(), c.width}, layouts_, c.initial_deviation);
    for (std::int64_t layer = 0; layer < c.layers; ++layer)
        blocks_.push_back(gpt2 ? make_gpt2_block(c, layouts_, fmt::format("{}h.{}.", root, layer))
                               : make_llama_block(c, layouts_, fmt::format("{}layers.{}.", root, layer)));
    final_gain_ = make_gain(root + (gpt2 ? "ln_f.weight" : "norm.weight"), c.width, layouts_);
    if (gpt2) final_bias_ = make_bias(root + "ln_f.bias", {c.width}, layouts_);
    if (!c.tied_embeddings) output_ = make_weight("lm_head.weight", table, layouts_, c.initial_deviation);

    for (Parameter* parameter : parameters()) {
        parameter->value =
            engine_.alloc(parameter->name, parameter->shape, parameter->layout, compute_, MemoryKind::parameters);
        parameter->master = compute_ != DType::bf16
                                ? parameter->value
                                : engine_.alloc(parameter->name + " master", parameter->shape, parameter->layout,
                                                DType::f32, MemoryKind::master_weights);
    }
}

std::vector<Parameter*> Transformer::parameters() {
    std::vector<Parameter*> all{&token_table_};
    if (position_table_) all.push_back(&*position_table_);
    for (auto& block : blocks_)
        for (Parameter* parameter : block->parameters()) all.push_back(parameter);
    all.push_back(&final_gain_);
    if (final_bias_) all.push_back(&*final_bias_);
    if (output_) all.push_back(&*output_);
    return all;
}

std::int64_t Transformer::parameter_count() {
    std::int64_t count = 0;
    for (const Parameter* parameter : parameters()) count += parameter->shape.elements();
    return count;
}

void Transformer::initialize(std::uint64_t seed) {
    for (Parameter* p : parameters())
        engine_.launch(kernels::FillNormal{seed, p->name, p->initial_deviation, p->initial_mean}, {p->master},
                       {p->master});
    refresh_values();
}

void Transformer::refresh_values() {
    if (compute_ != DType::bf16) return;
    for (Parameter* p : parameters()) engine_.launch(kernels::Cast{}, {p->master}, {p->value});
}

Tensor Transformer::hidden(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    CLEAVE_CHECK(!context.first_visible || (context.cache == nullptr && context.first_position == 0),
                 "documents of a part of a sequence");
    CLEAVE_CHECK(context.cache == nullptr || !tape.recording(), "a cache of keys and values under a recording tape");
    Tensor x = embedding(tape, tokens, token_table_, "embedding");
    if (position_table_) x = with_positions(tape, x, context);
    x = dropout(tape, x, {config_.dropout, config_.keep_dropout_masks}, "embedding dropout");
    for (auto& block : blocks_)
        x = recomputed(tape, x, block->parameters(),
                       [&block, context](Tape& part, const Tensor& in) { return block->forward(part, in, context); });
    return x;
}

Tensor Transformer::with_positions(Tape& tape, const Tensor& x, const SequenceContext& context) {
    constexpr std::string_view kName = "embedding + positions";
    if (context.first_visible) return add_document_positions(tape, x, context.first_visible, *position_table_, kName);
    return add_positions(tape, x, *position_table_, kName, context.first_position);
}

Tensor Transformer::head(Tape& tape, const Tensor& x) {
    const Tensor normed = final_bias_
                              ? layer_norm(tape, x, final_gain_, *final_bias_, config_.norm_epsilon, "final norm")
                              : rms_norm(tape, x, final_gain_, config_.norm_epsilon, "final norm");
    return linear(tape, normed, output_ ? *output_ : token_table_, nullptr, WeightForm::out_in, 1, "logits");
}

Tensor Transformer::logits(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    return head(tape, hidden(tape, tokens, context));
}

Tensor Transformer::logits_at(Tape& tape, const Tensor& tokens, std::int64_t at, const SequenceContext& context) {
    CLEAVE_CHECK(!tape.recording(), "logits of one position under a recording tape");
    const Tensor row = hidden(tape, tokens, context).narrow(1, at, 1);
    // A copy: rows of several sequences lie apart.
    return head(tape, engine_.create(kernels::Cast{}, {row}, {row.name(), row.shape(), row.dtype()}));
}

Tensor Transformer::loss(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale,
                         const SequenceContext& context) {
    return losses(tape, tokens, labels, scale, 0, context).objective;
}

Loss Transformer::losses(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale, double z_loss,
                         const SequenceContext& context) {
    return cross_entropy(tape, logits(tape, tokens, context), labels, scale, z_loss, "loss");
}

}  // namespace cleave

#include "model/transformer.h"

#include "kernels/elementwise.h"

namespace cleave {

Transformer::Transformer(Engine& engine, const ModelConfig& config, const ModelLayouts& layouts, DType compute,
                         const ZeroOptions& zero)
    : engine_(engine), config_(config), layouts_(layouts), compute_(compute) {
    const ModelConfig& c = config_;
    const bool gpt2 = c.family == Family::gpt2;
    const std::string root = gpt2 ? "transformer." : "model.";
    const Shape table{c.vocabulary, c.width};
    token_table_ =
        make_weight(root + (gpt2 ? "wte.weight" : "embed_tokens.weight"), table, layouts_.cut(0), c.initial_deviation);
    if (gpt2)
        position_table_ = make_weight(root + "wpe.weight", {c.most_positions(), c.width}, layouts_.stream_parameter,
                                      c.initial_deviation);
    for (std::int64_t layer = 0; layer < c.layers; ++layer)
        blocks_.push_back(gpt2 ? make_gpt2_block(c, layouts_, fmt::format("{}h.{}.", root, layer))
                               : make_llama_block(c, layouts_, fmt::format("{}layers.{}.", root, layer)));
    final_gain_ = make_gain(root + (gpt2 ? "ln_f.weight" : "norm.weight"), c.width, layouts_.stream_parameter);
    if (gpt2) final_bias_ = make_bias(root + "ln_f.bias", {c.width}, layouts_.stream_parameter);
    if (!c.tied_embeddings) output_ = make_weight("lm_head.weight", table, layouts_.cut(0), c.initial_deviation);

    number_groups();
    store_ = std::make_unique<ParameterStore>(engine_, parameters(), compute_, zero);
}

// 0 embedding, 1.. blocks, then the head.
void Transformer::number_groups() {
    int group = 0;
    for (auto& block : blocks_) {
        ++group;
        for (Parameter* parameter : block->parameters()) parameter->group = group;
    }
    ++group;
    final_gain_.group = group;
    if (final_bias_) final_bias_->group = group;
    if (output_) output_->group = group;
    if (!output_) token_table_.second_group = group;
    for (int g = 0; g <= group; ++g) {
        const std::string name = g == 0 ? "embedding" : g == group ? "head" : fmt::format("block {}", g - 1);
        marks_.push_back({name + " forward", name + " backward"});
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

Tensor Transformer::hidden(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    CLEAVE_CHECK(!context.first_visible || (context.cache == nullptr && context.first_position == 0),
                 "documents of a part of a sequence");
    CLEAVE_CHECK(context.cache == nullptr || !tape.recording(), "a cache of keys and values under a recording tape");
    // The gradient of a row that is looked up needs no row.
    Tensor x = part(tape, 0, Backward::needs_none, [&] { return embedded(tape, tokens, context); });
    int group = 0;
    for (auto& block : blocks_)
        x = part(tape, ++group, Backward::needs_values, [&] {
            return recomputed(tape, x, block->parameters(), [&block, context](Tape& inside, const Tensor& in) {
                return block->forward(inside, in, context);
            });
        });
    return x;
}

Tensor Transformer::part(Tape& tape, int group, Backward backward, const std::function<Tensor()>& body) {
    const Marks& marks = marks_[static_cast<std::size_t>(group)];
    engine_.mark(marks.forward);
    Tensor y = store_->in_group(tape, group, backward, body);
    tape.record_hook([this, &marks] { engine_.mark(marks.backward); });
    return y;
}

Tensor Transformer::embedded(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    Tensor x = transition(tape, embedding(tape, tokens, token_table_, "embedding"), layouts_.stream);
    if (position_table_) x = with_positions(tape, x, context);
    return dropout(tape, x, {config_.dropout, config_.keep_dropout_masks}, "embedding dropout");
}

Tensor Transformer::with_positions(Tape& tape, const Tensor& x, const SequenceContext& context) {
    constexpr std::string_view kName = "embedding + positions";
    if (context.first_visible) return add_document_positions(tape, x, context.first_visible, *position_table_, kName);
    return add_positions(tape, x, *position_table_, kName, context.first_position);
}

Arriving Transformer::head_input(Tape& tape, const Tensor& x) {
    const Tensor normed = final_bias_
                              ? layer_norm(tape, x, final_gain_, *final_bias_, config_.norm_epsilon, "final norm")
                              : rms_norm(tape, x, final_gain_, config_.norm_epsilon, "final norm");
    return into_products(tape, normed, layouts_);
}

Tensor Transformer::cut_logits(Tape& tape, const Arriving& input) {
    return linear(tape, input, output_ ? *output_ : token_table_, nullptr, WeightForm::out_in, 1, "logits");
}

Tensor Transformer::head(Tape& tape, const Tensor& x) {
    return part(tape, final_gain_.group, Backward::needs_values, [&] { return cut_logits(tape, head_input(tape, x)); });
}

Tensor Transformer::logits(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    return transition(tape, head(tape, hidden(tape, tokens, context)), layouts_.tokens);
}

Tensor Transformer::logits_at(Tape& tape, const Tensor& tokens, std::int64_t at, const SequenceContext& context) {
    CLEAVE_CHECK(!tape.recording(), "logits of one position under a recording tape");
    const Tensor x = hidden(tape, tokens, context);
    const Tensor logits = part(tape, final_gain_.group, Backward::needs_values, [&] {
        const Tensor row = head_input(tape, x).whole().narrow(1, at, 1);
        // A copy: rows of several sequences lie apart.
        return cut_logits(tape, engine_.create(kernels::Cast{}, {row}, {row.name(), row.shape(), row.dtype()}));
    });
    return transition(tape, logits, layouts_.tokens);
}

Tensor Transformer::loss(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale,
                         const SequenceContext& context) {
    return losses(tape, tokens, labels, scale, 0, context).objective;
}

Loss Transformer::losses(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale, double z_loss,
                         const SequenceContext& context) {
    const Tensor logits = head(tape, hidden(tape, tokens, context));
    engine_.mark("loss forward");
    Loss loss = cross_entropy(tape, logits, labels, scale, z_loss, "loss");
    tape.record_hook([this] { engine_.mark("loss backward"); });
    return loss;
}

}  // namespace cleave

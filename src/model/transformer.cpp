#include "model/transformer.h"

#include <set>

#include "kernels/elementwise.h"

namespace cleave {

Transformer::Transformer(Engine& engine, const ModelConfig& config, const ModelLayouts& layouts, DType compute,
                         const ZeroOptions& zero, const PipelineForm& pipeline)
    : engine_(engine),
      config_(config),
      layouts_(layouts),
      compute_(compute),
      pipeline_(pipeline),
      stage_(stage_of_pipeline(engine.mesh(), engine.rank())),
      parts_(model_parts(pipeline, config.layers)) {
    CLEAVE_CHECK(pipeline_.stages == pipeline_stages(engine.mesh()), "a model of {} stages on a mesh of {}",
                 pipeline_.stages, pipeline_stages(engine.mesh()));
    for (int chunk = 0; chunk < pipeline_.chunks; ++chunk)
        chunks_.push_back(parts_[static_cast<std::size_t>(pipeline_.virtual_stage_of(stage_, chunk))]);
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
    place_parameters();
    store_ = std::make_unique<ParameterStore>(engine_, parameters(), compute_, zero);
}

// 0 embedding, 1.. blocks, then the head. The store's groups leave a number out where the next virtual stage begins: it
// gathers one group ahead, which must not be of a chunk that runs at another time.
void Transformer::number_groups() {
    const int head = static_cast<int>(config_.layers) + 1;
    virtual_stages_.resize(static_cast<std::size_t>(head) + 1);
    for (int v = 0; v < pipeline_.virtual_stages(); ++v) {
        const ModelPart& part = parts_[static_cast<std::size_t>(v)];
        if (part.embedding) virtual_stages_.front() = v;
        for (std::int64_t layer = part.begin; layer < part.end; ++layer)
            virtual_stages_[static_cast<std::size_t>(layer) + 1] = v;
        if (part.head) virtual_stages_.back() = v;
    }
    for (int g = 0; g <= head; ++g) {
        const std::string name = g == 0 ? "embedding" : g == head ? "head" : fmt::format("block {}", g - 1);
        marks_.push_back({name + " forward", name + " backward"});
    }
}

// Which part, virtual stage and stage each parameter belongs to.
void Transformer::place_parameters() {
    const int head = static_cast<int>(config_.layers) + 1;
    const auto numbered = [&](int group) { return group + virtual_stages_[static_cast<std::size_t>(group)]; };
    const auto place = [&](Parameter& parameter, int group) {
        parameter.group = numbered(group);
        parameter.virtual_stages = {virtual_stages_[static_cast<std::size_t>(group)]};
    };
    place(token_table_, 0);
    if (position_table_) place(*position_table_, 0);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        for (Parameter* parameter : blocks_[i]->parameters()) place(*parameter, static_cast<int>(i) + 1);
    place(final_gain_, head);
    if (final_bias_) place(*final_bias_, head);
    if (output_) place(*output_, head);
    if (!output_) {
        token_table_.second_group = numbered(head);
        if (virtual_stages_.back() != virtual_stages_.front())
            token_table_.virtual_stages.push_back(virtual_stages_.back());
    }
    for (Parameter* parameter : parameters()) {
        std::set<int> owners;
        parameter->chunks_here = 0;
        for (const int v : parameter->virtual_stages)
            for (const int stage : pipeline_.owners_of(v)) {
                owners.insert(stage);
                if (stage == stage_) ++parameter->chunks_here;
            }
        parameter->owners.assign(owners.begin(), owners.end());
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

Tensor Transformer::chunk_stream(Tape& tape, int chunk, const Tensor& input, const SequenceContext& context) {
    CLEAVE_CHECK(!context.first_visible || (context.cache == nullptr && context.first_position == 0),
                 "documents of a part of a sequence");
    CLEAVE_CHECK(context.cache == nullptr || !tape.recording(), "a cache of keys and values under a recording tape");
    const ModelPart& of = chunks_[static_cast<std::size_t>(chunk)];
    // The gradient of a row that is looked up needs no row.
    Tensor x =
        of.embedding ? part(tape, 0, Backward::needs_none, [&] { return embedded(tape, input, context); }) : input;
    for (std::int64_t layer = of.begin; layer < of.end; ++layer)
        x = part(tape, static_cast<int>(layer) + 1, Backward::needs_values, [&] {
            return recomputed(tape, x, block(layer).parameters(),
                              [&block = block(layer), context](Tape& inside, const Tensor& in) {
                                  return block.forward(inside, in, context);
                              });
        });
    return x;
}

Tensor Transformer::alloc_stream(std::int64_t rows, std::int64_t tokens) {
    return engine_.alloc("stream", {rows, tokens, config_.width}, layouts_.stream, compute_, MemoryKind::activations);
}

Tensor Transformer::hidden(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    if (pipeline_.stages == 1) return chunk_stream(tape, 0, tokens, context);
    CLEAVE_CHECK(!tape.recording(), "the backward of a whole model whose stages are elsewhere");
    // Of a virtual stage that is held twice, the first chunk.
    const auto place_of = [&](int v) { return first_place(pipeline_, v); };
    const auto message = [&](int stage) { return Engine::Peer{pipeline_axis(engine_.mesh()), stage, 0}; };
    Tensor x = tokens;
    for (int v = 0; v < pipeline_.virtual_stages(); ++v) {
        const auto [stage, chunk] = place_of(v);
        if (stage != stage_) continue;
        if (v > 0 && place_of(v - 1).stage != stage_)
            x = engine_.finish(engine_.start_receive(alloc_stream(tokens.shape()[0], tokens.shape()[1]),
                                                     message(place_of(v - 1).stage)));
        x = chunk_stream(tape, chunk, x, context);
        if (v + 1 < pipeline_.virtual_stages() && place_of(v + 1).stage != stage_)
            engine_.finish(engine_.start_send(x, message(place_of(v + 1).stage)));
    }
    return place_of(pipeline_.virtual_stages() - 1).stage == stage_ ? x : Tensor();
}

// From the stage that has them, empty elsewhere.
Tensor Transformer::sent_to_all(Tensor logits, std::int64_t rows) {
    if (pipeline_.stages == 1) return logits;
    const int last = first_place(pipeline_, pipeline_.virtual_stages() - 1).stage;
    const auto message = [&](int stage) { return Engine::Peer{pipeline_axis(engine_.mesh()), stage, 1}; };
    if (stage_ != last) {
        logits =
            engine_.alloc("logits", {rows, 1, config_.vocabulary}, layouts_.tokens, compute_, MemoryKind::activations);
        return engine_.finish(engine_.start_receive(logits, message(last)));
    }
    for (int stage = 0; stage < pipeline_.stages; ++stage)
        if (stage != last) engine_.finish(engine_.start_send(logits, message(stage)));
    return logits;
}

Tensor Transformer::part(Tape& tape, int group, Backward backward, const std::function<Tensor()>& body) {
    const Marks& marks = marks_[static_cast<std::size_t>(group)];
    engine_.mark(marks.forward);
    Tensor y = store_->in_group(tape, group + virtual_stages_[static_cast<std::size_t>(group)], backward, body);
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
    return part(tape, static_cast<int>(config_.layers) + 1, Backward::follows,
                [&] { return cut_logits(tape, head_input(tape, x)); });
}

Tensor Transformer::logits(Tape& tape, const Tensor& tokens, const SequenceContext& context) {
    return transition(tape, head(tape, hidden(tape, tokens, context)), layouts_.tokens);
}

Tensor Transformer::logits_at(Tape& tape, const Tensor& tokens, std::int64_t at, const SequenceContext& context) {
    CLEAVE_CHECK(!tape.recording(), "logits of one position under a recording tape");
    const Tensor x = hidden(tape, tokens, context);
    if (!x) return sent_to_all({}, tokens.shape()[0]);
    const Tensor logits = part(tape, static_cast<int>(config_.layers) + 1, Backward::follows, [&] {
        const Tensor row = head_input(tape, x).whole().narrow(1, at, 1);
        // A copy: rows of several sequences lie apart.
        return cut_logits(tape, engine_.create(kernels::Cast{}, {row}, {row.name(), row.shape(), row.dtype()}));
    });
    return sent_to_all(transition(tape, logits, layouts_.tokens), tokens.shape()[0]);
}

Tensor Transformer::loss(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale,
                         const SequenceContext& context) {
    return losses(tape, tokens, labels, scale, 0, context).objective;
}

Loss Transformer::losses(Tape& tape, const Tensor& tokens, const Tensor& labels, double scale, double z_loss,
                         const SequenceContext& context) {
    const Tensor stream = hidden(tape, tokens, context);
    if (stream) return chunk_losses(tape, stream, labels, scale, z_loss);
    const Tensor nothing = zero_loss();
    return {nothing, nothing, z_loss == 0 ? Tensor() : nothing};
}

Loss Transformer::chunk_losses(Tape& tape, const Tensor& stream, const Tensor& labels, double scale, double z_loss) {
    const Tensor logits = head(tape, stream);
    engine_.mark("loss forward");
    Loss loss = cross_entropy(tape, logits, labels, scale, z_loss, "loss");
    tape.record_hook([this] { engine_.mark("loss backward"); });
    return loss;
}

Tensor Transformer::zero_loss() {
    Tensor zero = engine_.alloc("loss", {}, sum_over_elements(layouts_.tokens), accumulator_of(compute_),
                                MemoryKind::activations);
    engine_.launch(kernels::Fill{0.0}, {zero}, {zero});
    return zero;
}

}  // namespace cleave

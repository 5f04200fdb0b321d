#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "base/mutation.h"
#include "base/words.h"
#include "kernels/elementwise.h"

namespace cleave {

namespace {

// A scalar of a microbatch into the sum over those before it, which is made by the first.
void add_to(Engine& engine, const Tensor& scalar, Tensor& sum, std::string_view name) {
    if (sum)
        engine.launch(kernels::Accumulate{}, {scalar}, {sum});
    else
        sum = engine.create(kernels::Cast{}, {scalar}, {name, {}, scalar.dtype()});
}

// This rank's `count` ids are rows of the model's context.
Tensor alloc_rows(Engine& engine, const Transformer& model, std::string_view name, std::int64_t count) {
    const std::int64_t context = model.config().context;
    CLEAVE_CHECK(count % context == 0, "{} ids are no rows of {}", count, context);
    // The global number of rows: this rank's, times the ranks that share the batch (they hold equal parts).
    std::int64_t rows = count / context;
    for (const auto& [axis, placement] : model.layouts().tokens)
        if (placement == S(0)) rows *= engine.mesh().size(axis);
    return engine.alloc(name, {rows, context}, model.layouts().tokens, DType::i32, MemoryKind::activations);
}

}  // namespace

Tensor write_samples(Engine& engine, const Transformer& model, std::string_view name,
                     std::span<const std::int32_t> host) {
    Tensor tensor = alloc_rows(engine, model, name, static_cast<std::int64_t>(host.size()));
    engine.write(tensor, std::as_bytes(host));
    return tensor;
}

Tensor write_samples(Engine& engine, const Transformer& model, std::string_view name, const Samples& samples,
                     const std::vector<std::int32_t>& host) {
    if (samples.tokens_counted == 0) return write_samples(engine, model, name, host);
    CLEAVE_CHECK(engine.is_virtual(), "{} is counted, not there", name);
    Tensor tensor = alloc_rows(engine, model, name, samples.tokens_counted);
    engine.write(tensor, {static_cast<const std::byte*>(tensor.view().data),
                          static_cast<std::size_t>(tensor.view().bytes())});  // the virtual engine follows no address
    return tensor;
}

SequenceContext write_context(Engine& engine, const Transformer& model, const Samples& samples) {
    SequenceContext context;
    if (!samples.first_visible.empty() || samples.first_visible_counted)
        context.first_visible = write_samples(engine, model, "first visible", samples, samples.first_visible);
    return context;
}

std::int64_t unmasked_labels(const Samples& samples) {
    if (samples.tokens_counted > 0) return samples.tokens_counted;
    return std::count_if(samples.labels.begin(), samples.labels.end(),
                         [](std::int32_t label) { return label != kIgnoredLabel; });
}

std::int64_t sum_over_batch(Engine& engine, const Layout& tokens, std::int64_t count, std::int64_t stated) {
    const Layout partial = sum_over_elements(tokens);
    const auto own = static_cast<double>(count);
    const Tensor part = engine.alloc("label count", {}, partial, DType::f64, MemoryKind::activations);
    engine.write(part, std::as_bytes(std::span(&own, 1)));
    const Tensor total = engine.transition(part, summed(partial));
    return static_cast<std::int64_t>(engine.read(total, static_cast<double>(stated)));
}

TrainStep::TrainStep(Engine& engine, Transformer& model, const Job& job)
    : engine_(engine), model_(model), job_(job), gradients_(model.store()), optimizer_(model.store(), job_) {}

std::int64_t TrainStep::count_labels(const std::vector<Samples>& microbatches) {
    std::int64_t own = 0;
    std::int64_t all = 0;
    for (const Samples& samples : microbatches) {
        own += unmasked_labels(samples);
        all += samples.size();
    }
    if (mutated(Mutation::loss_scaled_per_rank)) return own * engine_.mesh().size(engine_.mesh().axis("dp"));
    return sum_over_batch(engine_, model_.layouts().tokens, own, all);
}

void TrainStep::forward(const Samples& samples, int microbatch, double scale) {
    engine_.mark(fmt::format("forward {}", microbatch));
    const Tensor tokens = write_samples(engine_, model_, "tokens", samples, samples.tokens);
    const Tensor labels = write_samples(engine_, model_, "labels", samples, samples.labels);
    auto tape = std::make_unique<Tape>(engine_, true, job_.recompute);
    tape->set_randomness({static_cast<std::uint64_t>(job_.train.seed), step_, samples.first_row});
    Loss loss = model_.losses(*tape, tokens, labels, scale, job_.train.z_loss, write_context(engine_, model_, samples));
    add_to(engine_, loss.cross_entropy, loss_sum_, "loss sum");
    if (loss.z_loss) add_to(engine_, loss.z_loss, z_loss_sum_, "z-loss sum");
    in_flight_.push_back({microbatch, std::move(tape), std::move(loss.objective)});
}

void TrainStep::backward(const ScheduleAction& action) {
    engine_.mark(fmt::format("backward {}", action.microbatch));
    const auto at = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const InFlight& flight) { return flight.microbatch == action.microbatch; });
    CLEAVE_CHECK(at != in_flight_.end(), "backward {} without its forward", action.microbatch);
    InFlight flight = std::move(*at);
    in_flight_.erase(at);
    flight.tape->backward(flight.objective, gradients_.hooks(action.last_backward));
}

void TrainStep::reduce() {
    engine_.mark("reduce");
    gradients_.finish();
}

double TrainStep::read_sum(Tensor& sum) {
    const Tensor total = engine_.transition(sum, summed(sum.layout()));
    sum = {};
    return engine_.read(total, 1.0);
}

StepResult TrainStep::interpret(const std::vector<Samples>& microbatches, bool update, std::int64_t step,
                                double learning_rate) {
    StepResult result;
    engine_.mark(fmt::format("step {}", step));
    step_ = static_cast<std::uint64_t>(step);
    gradients_.zero();
    result.tokens = count_labels(microbatches);
    if (result.tokens == 0)
        throw UserError(
            "step {}: every label of the batch is masked, nothing to learn from; accepted: a larger train.batch, or a "
            "data.mask with more labels",
            step);
    const double scale = 1.0 / static_cast<double>(result.tokens);
    for (const ScheduleAction& action : single_stage_schedule(static_cast<int>(microbatches.size()))) {
        switch (action.type) {
            case ScheduleAction::Type::forward:
                forward(microbatches[static_cast<std::size_t>(action.microbatch)], action.microbatch, scale);
                break;
            case ScheduleAction::Type::backward: backward(action); break;
            case ScheduleAction::Type::reduce:
                reduce();
                result.loss = read_sum(loss_sum_);
                if (z_loss_sum_) result.z_loss = read_sum(z_loss_sum_);
                if (!std::isfinite(result.loss)) skip(step, "loss", result.loss, result);
                break;
            case ScheduleAction::Type::optimizer:
                if (!update || result.skipped) break;
                engine_.mark("optimizer");
                result.gradient_norm = optimizer_.update(gradients_, step - skipped_steps_, learning_rate);
                if (!std::isfinite(result.gradient_norm))
                    skip(step, "gradient norm", result.gradient_norm, result);
                else
                    result.underflow = optimizer_.underflow();
                break;
            default: CLEAVE_CHECK(false, "an action of pipelines in a single stage");
        }
    }
    return result;
}

void TrainStep::skip(std::int64_t step, std::string_view what, double value, StepResult& result) {
    if (skipped_in_a_row_ == job_.train.skip_nonfinite) {
        const std::string before = skipped_in_a_row_ == 0
                                       ? ""
                                       : fmt::format(", after {} in a row", counted(skipped_in_a_row_, "skipped step"));
        throw RunError(
            "step {}: the {} is {}{}: nothing was updated. Try a lower train.lr or a longer train.warmup_steps", step,
            what, real_text(value), before);
    }
    ++skipped_in_a_row_;
    ++skipped_steps_;
    result.skipped = true;
}

StepResult TrainStep::run(const std::vector<Samples>& microbatches, std::int64_t step, double learning_rate) {
    const StepResult result = interpret(microbatches, true, step, learning_rate);
    if (!result.skipped) skipped_in_a_row_ = 0;
    return result;
}

double TrainStep::accumulate_gradients(const std::vector<Samples>& microbatches) {
    return interpret(microbatches, false, 0, 0).loss;
}

}  // namespace cleave

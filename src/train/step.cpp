#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "base/mutation.h"
#include "base/words.h"
#include "kernels/elementwise.h"
#include "parallel/layouts.h"
#include "train/job_layout.h"

namespace cleave {

namespace {

// A scalar of a microbatch into the sum over those before it, which is made by the first.
void add_to(Engine& engine, const Tensor& scalar, Tensor& sum, std::string_view name) {
    if (sum)
        engine.launch(kernels::Accumulate{}, {scalar}, {sum});
    else
        sum = engine.create(kernels::Cast{}, {scalar}, {name, {}, scalar.dtype()});
}

// The global number of rows where this rank has `count` ids: its own, times the ranks that share the batch (they hold
// equal parts).
std::int64_t rows_of(Engine& engine, const Transformer& model, std::int64_t count) {
    const std::int64_t context = model.config().context;
    CLEAVE_CHECK(count % context == 0, "{} ids are no rows of {}", count, context);
    std::int64_t rows = count / context;
    for (const auto& [axis, placement] : model.layouts().tokens)
        if (placement == S(0)) rows *= engine.mesh().size(axis);
    return rows;
}

Tensor alloc_rows(Engine& engine, const Transformer& model, std::string_view name, std::int64_t count) {
    return engine.alloc(name, {rows_of(engine, model, count), model.config().context}, model.layouts().tokens,
                        DType::i32, MemoryKind::activations);
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

ChunkProgram TrainStep::program_of(const std::vector<Samples>& microbatches, double scale) {
    const auto samples = [&microbatches](int microbatch) -> const Samples& {
        return microbatches[static_cast<std::size_t>(microbatch)];
    };
    ChunkProgram program;
    program.make_tape = [this, samples](int microbatch) {
        auto tape = std::make_unique<Tape>(engine_, true, job_.recompute);
        tape->set_randomness({static_cast<std::uint64_t>(job_.train.seed), step_, samples(microbatch).first_row});
        return tape;
    };
    program.forward = [this, samples, scale](Tape& tape, int chunk, int microbatch, const Tensor& input) {
        const Samples& of = samples(microbatch);
        const ModelPart& part = model_.chunks()[static_cast<std::size_t>(chunk)];
        const Tensor in = part.embedding ? write_samples(engine_, model_, "tokens", of, of.tokens) : input;
        const Tensor labels = part.head ? write_samples(engine_, model_, "labels", of, of.labels) : Tensor();
        const Tensor stream = model_.chunk_stream(tape, chunk, in, write_context(engine_, model_, of));
        return part.head ? losses(tape, stream, labels, scale) : stream;
    };
    program.alloc = [this, rows = rows_of(engine_, model_, microbatches.front().size())] {
        return model_.alloc_stream(rows, model_.config().context);
    };
    program.hooks = [this](bool last) { return gradients_.hooks(last); };
    return program;
}

Tensor TrainStep::losses(Tape& tape, const Tensor& stream, const Tensor& labels, double scale) {
    const Loss loss = model_.chunk_losses(tape, stream, labels, scale, job_.train.z_loss);
    add_to(engine_, loss.cross_entropy, loss_sum_, "loss sum");
    if (loss.z_loss) add_to(engine_, loss.z_loss, z_loss_sum_, "z-loss sum");
    return loss.objective;
}

void TrainStep::reduce() {
    engine_.mark("reduce");
    gradients_.finish();
}

double TrainStep::read_sum(Tensor& sum) {
    const Tensor own = sum ? std::exchange(sum, {}) : model_.zero_loss();
    return read_over_stages(engine_, engine_.transition(own, summed(own.layout())));
}

const PipelineSchedule& TrainStep::schedule_of(int microbatches) {
    if (schedule_.of_stage.empty() || schedule_.microbatches != microbatches)
        schedule_ = pipeline_schedule(job_, microbatches);
    return schedule_;
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
    const PipelineSchedule& schedule = schedule_of(static_cast<int>(microbatches.size()));
    PipelineRun pipeline(engine_, schedule, program_of(microbatches, 1.0 / static_cast<double>(result.tokens)));
    if (times_ != nullptr) pipeline.measure(*times_);
    const auto stage = static_cast<std::size_t>(stage_of_pipeline(engine_.mesh(), engine_.rank()));
    for (const ScheduleAction& action : schedule.of_stage[stage]) {
        if (action.type == ScheduleAction::Type::optimizer) break;  // the rest of this function
        if (action.type != ScheduleAction::Type::reduce) {
            pipeline.perform(action);
            continue;
        }
        pipeline.finish();
        reduce();
    }
    result.loss = read_sum(loss_sum_);
    if (job_.train.z_loss != 0) result.z_loss = read_sum(z_loss_sum_);
    if (!std::isfinite(result.loss)) skip(step, "loss", result.loss, result);
    if (!update || result.skipped) return result;
    engine_.mark("optimizer");
    result.gradient_norm = optimizer_.update(gradients_, step - skipped_steps_, learning_rate);
    if (!std::isfinite(result.gradient_norm))
        skip(step, "gradient norm", result.gradient_norm, result);
    else
        result.underflow = optimizer_.underflow();
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

#include "train/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/words.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/gather_text.h"
#include "train/generate.h"
#include "train/job_keys.h"
#include "train/job_layout.h"
#include "train/layout_notes.h"
#include "train/loss_plot.h"
#include "train/resume_bits.h"
#include "train/schedule.h"

namespace cleave {

namespace {

std::string clock_text(double left) {
    const auto s = std::lround(left);
    return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                     : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string count_text(double count) {
    if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
    if (count >= 1e3) return fmt::format("{:.1f}k", count / 1e3);
    return fmt::format("{:.0f}", count);
}

// What was not finite; where the loss is not, there is no gradient norm.
std::string nonfinite_text(const StepResult& result) {
    const std::string loss = fmt::format("loss {}", real_text(result.loss));
    return std::isfinite(result.loss) ? fmt::format("{}, gradient norm {}", loss, real_text(result.gradient_norm))
                                      : loss;
}

// The part of all weights from which on lost values are worth a warning.
constexpr double kMuchUnderflow = 0.1;

// A collective waits for a rank that writes a checkpoint; that may take longer than a collective may otherwise.
constexpr auto kCheckpointTimeout = std::chrono::hours(1);

}  // namespace

TrainingRun::TrainingRun(SharedRun& shared, comm::Communicator& world)
    : shared_(shared),
      job_(shared.job),
      world_(world),
      engine_(shared.mesh, world, shared.team),
      model_(model_of(job_, engine_)),
      step_(engine_, model_, job_),
      sampler_(shared.dataset, job_.model.context, job_.train.seed, job_.data.separate_documents),
      dp_(shared.mesh.size(shared.mesh.axis("dp"))),
      dp_rank_(shared.mesh.coordinate(world.rank(), shared.mesh.axis("dp"))),
      microbatch_(microbatch_size(job_, dp_)),
      accumulation_(accumulation(job_, dp_, job_.train.batch)),
      microbatches_(static_cast<std::size_t>(accumulation_)),
      started_(seconds()) {
    if (shared_.checkpoint != nullptr) {
        load_weights(*shared_.checkpoint, model_);
        load_optimizer(*shared_.checkpoint, step_.optimizer());
        done_ = *shared_.checkpoint->metadata().find("step")->integer();
        if (const Json* skipped = shared_.checkpoint->metadata().find("skipped_steps"))
            step_.set_skipped_steps(*skipped->integer());
        saved_ = done_;
    } else if (shared_.weights != nullptr) {
        shared_.weights->load(model_);
    } else {
        model_.initialize(static_cast<std::uint64_t>(job_.train.seed));
    }
}

// With what its config.json says and has no effect here.
void TrainingRun::announce_weights(const WeightsSource& weights) {
    log_info("begins with the weights of {}", weights.description());
    if (weights.hugging_face() == nullptr) return;
    for (const std::string& note : weights.hugging_face()->config().notes) log_info("config.json: {}", note);
}

namespace {

std::string dropout_text(const ModelConfig& model) {
    return (model.dropout == 0 ? "" : fmt::format(", dropout {}", model.dropout)) +
           (model.attention_dropout == 0 ? "" : fmt::format(", attention dropout {}", model.attention_dropout));
}

std::string chunks_text(const Job& job, int dp) {
    if (job.tensor_parallel_chunks == 1) return "";
    return fmt::format(", sent in {}", counted(communication_chunks(job, dp), "chunk"));
}

// What is cut along dp, tp and pp.
std::string placements_text(const Job& job, int dp) {
    const Job::Zero& zero = job.zero;
    constexpr std::string_view kOfStage[] = {"parameters R", "parameters R, optimizer state S(0)",
                                             "parameters R, gradients and optimizer state S(0)",
                                             "parameters, gradients and optimizer state S(0)"};
    const std::string stage = zero.stage == 0 ? "" : fmt::format(" (ZeRO stage {}", zero.stage);
    const bool groups = zero.group != 0 && zero.group != dp;
    const std::string text = stage.empty() ? ""
                             : groups      ? fmt::format("{} in groups of {})", stage, counted(zero.group, "rank"))
                                           : stage + ")";
    const std::string tp = job.mesh.tp == 1 ? ""
                                            : fmt::format("; tp {}: matrices, heads and vocabulary cut{}", job.mesh.tp,
                                                          job.sequence_parallel ? ", the stream cut by tokens" : "") +
                                                  chunks_text(job, dp);
    const std::string reduced = zero.reduce == ZeroReduce::step ? ", gradients reduced once a step" : "";
    return fmt::format("batch S(0) along dp, {}{}{}{}{}", kOfStage[static_cast<std::size_t>(zero.stage)], text, reduced,
                       tp, job.mesh.pp == 1 ? "" : fmt::format("; pp {}: {}", job.mesh.pp, pipeline_text(job)));
}

}  // namespace

void TrainingRun::announce() {
    const ModelConfig& m = job_.model;
    log_info("{}: {}, width {}, {}, context {}, vocabulary {}{}: {} parameters",
             m.family == Family::gpt2 ? "gpt2" : "llama", counted(m.layers, "layer"), m.width, counted(m.heads, "head"),
             m.context, m.vocabulary, dropout_text(m), count_text(static_cast<double>(model_.parameter_count())));
    log_info("{} ({}), {} each{}, transport {}, compute {}, gradients, optimizer state and reductions {}",
             counted(world_.size(), "rank"), placements_text(job_, dp_), counted(engine_.team(), "thread"),
             asked_threads() ? " (OMP_NUM_THREADS)" : "", comm::name_of(world_.transport()), name_of(job_.train.dtype),
             name_of(accumulator_of(job_.train.dtype)));
    log_info("batch {} = {} x {} x {}; {} training tokens, {} validation tokens", job_.train.batch,
             counted(dp_, "rank"), counted(accumulation_, "microbatch", "microbatches"),
             counted(microbatch_, "sequence"), shared_.dataset.tokens(Part::train).size(),
             shared_.dataset.tokens(Part::validation).size());
    for (const std::string& note : layout_notes(job_, dp_)) log_info("{}", note);
    if (shared_.checkpoint == nullptr && shared_.weights != nullptr) announce_weights(*shared_.weights);
    if (shared_.checkpoint == nullptr) return;
    log_info("resumes after step {} from {}", done_, shared_.checkpoint->path().string());
    const CheckpointFile& from = *shared_.checkpoint;
    const Json* environment = from.metadata().find("environment");
    const std::string difference =
        bits_difference(job_from_json(*from.metadata().find("job"), from.path().string()),
                        environment == nullptr ? Json() : *environment, job_, this_environment(dp_, engine_.team()));
    if (!difference.empty())
        log_warning("bits may differ from those of a run that was not interrupted: {}", difference);
}

bool TrainingRun::stop_agreed() {
    // Ranks see a signal at different times: all stop after the same step, or none.
    std::uint8_t stop = stop_requested() ? 1 : 0;
    std::uint8_t agreed = 0;
    world_.all_reduce(&stop, &agreed, 1, DType::u8, comm::ReduceOp::max).wait();
    return agreed != 0;
}

void TrainingRun::train_step(std::int64_t step) {
    const std::int64_t batch = global_batch(job_.train, step - 1);
    const std::int64_t passes = accumulation(job_, dp_, batch);
    microbatches_.resize(static_cast<std::size_t>(passes));
    for (std::int64_t m = 0; m < passes; ++m) {
        Samples& samples = microbatches_[static_cast<std::size_t>(m)];
        sampler_.training(step - 1, microbatch_rows(batch, dp_, dp_rank_, microbatch_, m), samples);
    }
    const bool traced = step == job_.run.trace_step;
    if (traced) engine_.trace().start();
    const double begin = seconds();
    const double exposed_before = engine_.exposed_communication_s();
    const double rate = learning_rate(job_.train, step - 1);
    const StepResult result = step_.run(microbatches_, step, rate);
    const double elapsed = seconds() - begin;
    const double exposed = engine_.exposed_communication_s() - exposed_before;
    exposed_seconds_ += exposed;
    if (traced) {
        engine_.trace().stop();
        write_trace(step);
    }
    done_ = step;
    train_seconds_ += elapsed;
    const std::int64_t tokens = batch * job_.model.context;
    trained_tokens_ += tokens;
    ++timed_steps_;
    if (!first()) return;
    Json line = Json::object();
    line.set("step", step);
    if (result.skipped)
        line.set("skipped", true);
    else
        line.set("loss", result.loss).set("gradient_norm", result.gradient_norm);
    line.set("lr", rate).set("batch", batch);
    if (job_.train.z_loss != 0 && !result.skipped) line.set("z_loss", result.z_loss);
    if (result.underflow) report_underflow(step, *result.underflow, line);
    if (result.tokens != tokens) line.set("labels", result.tokens);
    line.set("tokens_per_s", static_cast<double>(tokens) / elapsed).set("step_time_s", elapsed);
    line.set("exposed_comm_s", exposed);
    metrics_->append(line);
    if (result.skipped)
        log_warning("step {}: {}: skipped by all ranks, nothing was updated ({} so far)", step, nonfinite_text(result),
                    step_.skipped_steps());
    else
        show(step, result, rate);
}

// The f32 copy of a weight collects what waits: only the other two are lost.
void TrainingRun::report_underflow(std::int64_t step, const Underflow& underflow, Json& line) {
    line.set("gradients_underflowed", underflow.gradients).set("updates_lost", underflow.updates);
    if (job_.train.dtype == DType::bf16) line.set("updates_waiting", underflow.waiting);
    const std::int64_t lost = std::max(underflow.gradients, underflow.updates);
    const auto all = static_cast<double>(model_.parameter_count());
    if (warned_of_underflow_ || static_cast<double>(lost) < kMuchUnderflow * all) return;
    warned_of_underflow_ = true;
    log_warning(
        "step {}: of {} weights, {} have a gradient too small for a normal number and {} an update too small to change "
        "them in {}; a larger train.lr, or train.dtype = \"f64\", would. Said once; metrics.jsonl counts on",
        step, model_.parameter_count(), underflow.gradients, underflow.updates,
        name_of(accumulator_of(job_.train.dtype)));
}

void TrainingRun::show(std::int64_t step, const StepResult& result, double learning_rate) {
    const double per_step = (seconds() - started_) / static_cast<double>(timed_steps_);
    // At most 79 characters up to 99999 steps: a narrow terminal must not cut the time left.
    standard_log().progress(fmt::format("step {}/{}  loss {:.4f}  lr {:.1e}  norm {:.2f}  {} tokens/s  {} left", step,
                                        job_.train.steps, result.loss, learning_rate, result.gradient_norm,
                                        count_text(static_cast<double>(trained_tokens_) / train_seconds_),
                                        clock_text(per_step * static_cast<double>(job_.train.steps - step))));
}

double TrainingRun::evaluate_part(Part part, std::int64_t evaluation) {
    Samples& samples = microbatches_.front();
    const auto draw = [&](std::int64_t i) -> const Samples& {
        RowRange rows = microbatch_rows(job_.train.batch, dp_, dp_rank_, microbatch_, i % accumulation_);
        rows.first += i / accumulation_ * job_.train.batch;
        sampler_.evaluation(part, evaluation, rows, samples);
        return samples;
    };
    const std::int64_t batches = job_.train.evaluate_batches;
    return evaluate(engine_, model_, batches * accumulation_, draw, batches * job_.train.batch * job_.model.context);
}

double TrainingRun::evaluate_all(Part part) {
    const std::int64_t together = microbatch_ * dp_;
    Samples& samples = microbatches_.front();
    const auto draw = [&](std::int64_t i) -> const Samples& {
        sampler_.cover(part, {i * together + dp_rank_ * microbatch_, microbatch_}, samples);
        return samples;
    };
    return evaluate(engine_, model_, (sampler_.cover_rows(part) + together - 1) / together, draw,
                    sampler_.cover_labels(part));
}

void TrainingRun::evaluate_now(bool at_end) {
    const double train = evaluate_part(Part::train, done_);
    const bool all = at_end && job_.train.evaluate_all_at_end;
    const double validation = all ? evaluate_all(Part::validation) : evaluate_part(Part::validation, done_);
    if (!std::isfinite(train) || !std::isfinite(validation))
        throw RunError("after step {}: train loss {}, validation loss {}. Try a lower train.lr", done_,
                       real_text(train), real_text(validation));
    if (!first()) return;
    shared_.result.train_loss = train;
    shared_.result.validation_loss = validation;
    log_info("step {}: train loss {:.4f}, validation loss {:.4f}{}", done_, train, validation,
             all ? " (the whole validation part)" : "");
    if (timed_steps_ == 0) return;  // a finished run that is resumed: the line is there
    Json line = Json::object();
    line.set("step", done_).set("train_loss", train).set("validation_loss", validation);
    metrics_->append(line);
}

void TrainingRun::save() {
    if (saved_ == done_) return;
    world_.set_timeout(kCheckpointTimeout);
    Json metadata = Json::object();
    if (first()) {
        metadata.set("step", done_).set("skipped_steps", step_.skipped_steps());
        metadata.set("job", to_json(job_)).set("tokenizer", shared_.dataset.tokenizer().to_json());
        metadata.set("text_xxh64", fmt::format("{:016x}", shared_.dataset.text_hash()));
        metadata.set("mask_xxh64", fmt::format("{:016x}", shared_.dataset.mask_hash()));
        metadata.set("environment", to_json(this_environment(dp_, engine_.team())));
    }
    save_checkpoint(first() ? shared_.folder->checkpoint(done_) : std::filesystem::path(), model_, step_.optimizer(),
                    metadata);
    if (first()) {
        const RunFolder& folder = *shared_.folder;
        mark_latest(folder.checkpoint(done_));
        folder.remove_checkpoints_before(done_);
        write_file(folder.loss_plot(), loss_plot(folder.path().filename().string(), read_metrics(folder.metrics())));
    }
    world_.barrier().wait();
    world_.set_timeout(std::chrono::duration_cast<comm::Duration>(std::chrono::duration<double>(job_.comm.timeout_s)));
    saved_ = done_;
}

void TrainingRun::write_trace(std::int64_t step) {
    const auto fragments = gather_text(world_, chrome_events(world_.rank(), engine_.trace().events()));
    if (!first()) return;
    write_file(shared_.folder->trace(), chrome_trace(fragments));
    log_info("{}: step {} of every rank, for ui.perfetto.dev", shared_.folder->trace().string(), step);
}

void TrainingRun::begin() {
    if (!first()) return;
    metrics_.emplace(shared_.folder->metrics(),
                     shared_.checkpoint == nullptr ? std::nullopt : std::optional(done_ + 1));
    announce();
}

void TrainingRun::run() {
    begin();
    const Job::Train& t = job_.train;
    while (done_ < t.steps && !shared_.stopped) {
        train_step(done_ + 1);
        if (done_ == t.steps) break;
        if (stop_agreed()) shared_.stopped = true;
        // Also when the run stops: one that resumes begins with the next step.
        if (due(t.evaluate_every)) evaluate_now(false);
        if (shared_.stopped || due(t.checkpoint_every)) save();
    }
    if (first()) standard_log().end_progress();
    if (!shared_.stopped) {
        evaluate_now(true);
        save();
        sample();
    }
    summarize();
}

void TrainingRun::sample() {
    const Tokenizer& tokenizer = shared_.dataset.tokenizer();
    std::vector<Token> text = prompt_tokens(tokenizer, job_.sample.prompt, "sample.prompt");
    GenerationSettings settings;
    settings.sample = job_.sample;
    settings.vocabulary = tokenizer.vocabulary();
    settings.seed = static_cast<std::uint64_t>(job_.train.seed);
    const Generated more = generate(engine_, model_, text, settings);
    if (!first()) return;
    text.insert(text.end(), more.tokens.begin(), more.tokens.end());
    shared_.result.sample = tokenizer.decode(text);
    write_file(shared_.folder->sample(), shared_.result.sample + "\n");
}

std::vector<BytesByKind> TrainingRun::gather_peaks() {
    const BytesByKind own = engine_.ledger().at_peak();
    std::vector<BytesByKind> all(static_cast<std::size_t>(world_.size()));
    world_.gather(own.data(), all.front().data(), static_cast<std::int64_t>(own.size()), DType::i64, 0).wait();
    return all;
}

void TrainingRun::summarize() {
    std::vector<BytesByKind> peaks = gather_peaks();
    if (!first()) return;
    TrainingResult& result = shared_.result;
    result.stopped = shared_.stopped;
    result.steps = done_;
    result.trained_steps = timed_steps_;
    result.parameters = model_.parameter_count();
    result.tokens_per_s = train_seconds_ > 0 ? static_cast<double>(trained_tokens_) / train_seconds_ : 0;
    result.step_time_s = timed_steps_ > 0 ? train_seconds_ / static_cast<double>(timed_steps_) : 0;
    result.seconds = seconds() - started_;
    result.exposed_comm_s = timed_steps_ > 0 ? exposed_seconds_ / static_cast<double>(timed_steps_) : 0;
    result.peak_bytes = std::move(peaks);
}

}  // namespace cleave

#include "train/eval_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/log.h"
#include "base/output.h"
#include "base/words.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/eval_text.h"
#include "train/eval_windows.h"
#include "train/evaluate.h"
#include "train/job_check.h"

namespace cleave {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Result {
    double loss = 0;
    double seconds = 0;
};

// The options with what follows from the source filled in, checked as far as that needs no text.
EvalOptions completed(EvalOptions options, const WeightsSource& source) {
    std::vector<std::string> problems;
    const bool run = source.checkpoint() != nullptr;
    const std::int64_t positions = source.model().most_positions();
    if (options.data.empty()) options.data = run ? source.job().data.path : "";
    if (options.data.empty())
        problems.push_back(fmt::format(
            "--data: no file is named, and {} knows of none; accepted: a text or a token file", source.description()));
    if (options.part != "all" && options.part != "train" && options.part != "validation")
        problems.push_back(fmt::format("--part: found '{}'; accepted: train, validation, all", options.part));
    else if (options.part != "all" && !run)
        problems.push_back(
            fmt::format("--part: found '{}', but only a run has cut its text; accepted for a Hugging Face folder: all",
                        options.part));
    if (options.context == 0) options.context = source.model().context;
    if (options.context > positions)
        problems.push_back(fmt::format("--context: found {}; accepted: from 1 to {}, the positions of the model",
                                       options.context, positions));
    if (options.stride == 0) options.stride = options.context;
    if (options.stride > options.context)
        problems.push_back(fmt::format(
            "--stride: found {}; accepted: from 1 to {}, the tokens of a window: a larger one would leave out tokens",
            options.stride, options.context));
    throw_problems(problems);
    return options;
}

// One evaluation, shared by all ranks.
class Evaluation {
  public:
    Evaluation(const EvalOptions& options, const WeightsSource& source)
        : options_(options), source_(source), text_(source, options), model_(source.model()) {
        model_.positions = model_.most_positions();  // the table's rows, whatever the context becomes
        // A short text needs no row longer than itself.
        model_.context = std::min(options.context, static_cast<std::int64_t>(text_.tokens().size()) - 1);
        windows_.emplace(text_.tokens(), model_.context, std::min(options.stride, model_.context),
                         text_.document_starts());
        if (windows_->labels() < 1)
            throw UserError(
                "--data: no token of '{}' has one of its own document before it; accepted: longer documents",
                options.data);
    }

    Result on_rank(comm::Communicator& world, const Mesh& mesh) const;
    void report(const Result& result) const;

  private:
    // Sequences of a rank's pass: enough for large products, few enough for their logits.
    std::int64_t rows() const {
        constexpr std::int64_t kTokens = 4096, kLogits = 1 << 26;
        const std::int64_t most = std::max<std::int64_t>(
            1, std::min(kTokens / model_.context, kLogits / (model_.context * model_.vocabulary)));
        return std::min(most, (windows_->count() + options_.ranks - 1) / options_.ranks);
    }
    Json document(const Result& result) const;
    std::string sentences(const Result& result) const;
    double perplexity(const Result& result) const { return std::exp(result.loss); }
    std::optional<double> bits_per_byte(const Result& result) const {
        if (!text_.bytes()) return std::nullopt;
        return result.loss * static_cast<double>(windows_->labels()) / std::numbers::ln2 /
               static_cast<double>(*text_.bytes());
    }
    double tokens_per_second(const Result& result) const {
        return static_cast<double>(windows_->labels()) / std::max(result.seconds, 1e-9);
    }
    std::int64_t documents() const { return static_cast<std::int64_t>(text_.document_starts().size()); }
    DType dtype() const { return options_.dtype.value_or(source_.job().train.dtype); }

    const EvalOptions& options_;
    const WeightsSource& source_;
    EvalText text_;
    ModelConfig model_;
    std::optional<EvalWindows> windows_;
};

Result Evaluation::on_rank(comm::Communicator& world, const Mesh& mesh) const {
    const bool mpi = comm::under_mpirun();
    CpuEngine engine(mesh, world, team_size(mpi ? comm::process_place().local_count : options_.ranks));
    Transformer model(engine, model_, data_parallel_layouts(mesh), dtype());
    source_.load(model);
    const std::int64_t each = rows();
    const std::int64_t together = each * options_.ranks;
    const std::int64_t batches = (windows_->count() + together - 1) / together;
    const auto begin = Clock::now();
    Samples samples;
    const auto draw = [&](std::int64_t batch) -> const Samples& {
        if (world.rank() == 0 && batch > 0)
            standard_log().progress(
                fmt::format("window {} of {}, {:.0f} tokens/s", batch * together, windows_->count(),
                            static_cast<double>(batch * together * options_.stride) / seconds_since(begin)));
        windows_->fill({batch * together + world.rank() * each, each}, samples);
        return samples;
    };
    const double loss = evaluate(engine, model, batches, draw, windows_->labels());
    if (world.rank() == 0) standard_log().end_progress();
    return {loss, seconds_since(begin)};
}

Json Evaluation::document(const Result& result) const {
    const auto bits = bits_per_byte(result);
    Json json = Json::object();
    json.set("loss", result.loss).set("perplexity", perplexity(result));
    json.set("bits_per_byte", bits ? Json(*bits) : Json()).set("predicted_tokens", windows_->labels());
    json.set("documents", documents() > 0 ? Json(documents()) : Json());
    json.set("bytes", text_.bytes() ? Json(*text_.bytes()) : Json()).set("windows", windows_->count());
    json.set("context", options_.context).set("stride", options_.stride);
    json.set("data", options_.data).set("part", options_.part).set("checkpoint", source_.path().string());
    json.set("dtype", name_of(dtype())).set("ranks", options_.ranks);
    json.set("tokens_per_s", tokens_per_second(result)).set("seconds", result.seconds);
    return json;
}

std::string Evaluation::sentences(const Result& result) const {
    const auto bits = bits_per_byte(result);
    std::string text = fmt::format("loss {:.6f} nats a token, perplexity {:.4f}", result.loss, perplexity(result));
    text += bits ? fmt::format(", {:.6f} bits a byte\n", *bits) : "; bits a byte not known: ids without a tokenizer\n";
    text += fmt::format("{} of {}{}", counted(windows_->labels(), "token"), options_.data,
                        options_.part == "all" ? "" : fmt::format(" ({} part)", options_.part));
    if (text_.bytes()) text += fmt::format(", {}", counted(*text_.bytes(), "byte"));
    if (documents() > 1) text += fmt::format(", {} documents that do not see each other", documents());
    return text + fmt::format(", in {} of {}, stride {}: {:.0f} tokens/s\n", counted(windows_->count(), "window"),
                              options_.context, options_.stride, tokens_per_second(result));
}

void Evaluation::report(const Result& result) const {
    if (!std::isfinite(result.loss)) throw RunError("the loss on {} is {}", options_.data, real_text(result.loss));
    print(options_.json ? document(result).dump() + "\n" : sentences(result));
}

}  // namespace

int run_evaluation(const EvalOptions& asked) {
    const WeightsSource source(asked.folder);
    const EvalOptions options = completed(asked, source);
    const Evaluation evaluation(options, source);
    const Mesh mesh({{"pp", 1}, {"dp", options.ranks}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = options.ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        set_thread_rank(world.rank());
        const Result result = evaluation.on_rank(world, mesh);
        if (world.rank() == 0) evaluation.report(result);
    });
    return kExitOk;
}

}  // namespace cleave

#include "train/generation_run.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/output.h"
#include "base/words.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/end_tokens.h"
#include "train/generate.h"
#include "train/job_check.h"
#include "train/next_logits.h"
#include "train/stop_text.h"
#include "train/weights_source.h"

namespace cleave {

namespace {

Job::Sample sample_of(const GenerateOptions& options, Job::Sample sample) {
    sample.prompt = options.prompt.value_or(sample.prompt);
    sample.tokens = options.tokens.value_or(sample.tokens);
    sample.temperature = options.temperature.value_or(sample.temperature);
    sample.top_k = options.top_k.value_or(sample.top_k);
    sample.top_p = options.top_p.value_or(sample.top_p);
    return sample;
}

// What a generation needs, read and checked before the model is loaded.
struct Request {
    Request(const GenerateOptions& options_, const WeightsSource& source)
        : options(options_), tokenizer(source.tokenizer()), model(source.model()) {
        settings.sample = sample_of(options, source.job().sample);
        settings.vocabulary = tokenizer.vocabulary();
        settings.seed = static_cast<std::uint64_t>(options.seed);
        settings.cache = options.cache;
        if (!options.ignore_end) settings.end_tokens = end_tokens(source, tokenizer);
        std::vector<std::string> problems;
        if (std::count(options.stops.begin(), options.stops.end(), "") > 0)
            problems.emplace_back("--stop: found an empty text; accepted: one or more characters");
        try {
            prompt = prompt_tokens(tokenizer, settings.sample.prompt, "the prompt");
        } catch (const UserError& error) {
            problems.emplace_back(error.what());
        }
        throw_problems(problems);
        note_window();
    }

    void note_window() const {
        const std::int64_t most = model.most_positions();
        const auto count = static_cast<std::int64_t>(prompt.size());
        if (const std::int64_t unseen = window_begin(count, most); unseen > 0)
            log_warning("the prompt has {}, the model {}: it does not see the first {}", counted(count, "token"),
                        counted(most, "position"), unseen);
    }

    const GenerateOptions& options;
    Tokenizer tokenizer;
    ModelConfig model;
    GenerationSettings settings;
    std::vector<Token> prompt;
};

// Shows the text as it comes, and ends it at a stop word.
class Screen {
  public:
    Screen(const Tokenizer& tokenizer, const GenerateOptions& options)
        : decoder_(tokenizer), stops_(options.stops), silent_(options.json) {}

    void show(const std::string& piece) {
        text_ += piece;
        if (!silent_ && !piece.empty()) print(piece);
    }
    // Whether the text goes on.
    bool add(Token token) {
        show(stops_.add(decoder_.add(token)));
        return !stops_.found();
    }
    // What was held back of a text that has ended otherwise.
    void finish() {
        show(stops_.add(decoder_.finish()));
        show(stops_.finish());
        if (!silent_) print("\n");
    }
    const std::string& text() const { return text_; }
    bool stopped() const { return stops_.found(); }

  private:
    StreamingDecoder decoder_;
    StopText stops_;
    std::string text_;
    bool silent_;
};

std::string_view reason(const Generated& generated, const Screen& screen) {
    if (screen.stopped()) return "stop text";
    return generated.ending == Ending::end_token ? "end of text" : "length";
}

double rate(std::int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

void report(const Request& request, const Generated& generated, const Screen& screen, const std::string& source) {
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    const std::int64_t seen = prompt - window_begin(prompt, request.model.most_positions());
    const double prefill = rate(seen, generated.prefill_seconds);
    const double decode = rate(generated.decode_passes, generated.decode_seconds);
    if (!request.options.json) {
        log_info("prompt {} ({:.0f} tokens/s), written {} ({:.1f} tokens/s), ended by {}", counted(prompt, "token"),
                 prefill, generated.tokens.size(), decode, reason(generated, screen));
        return;
    }
    Json tokens = Json::array();
    for (const Token token : generated.tokens) tokens.push(token);
    Json document = Json::object();
    document.set("text", screen.text()).set("tokens", std::move(tokens)).set("prompt_tokens", prompt);
    document.set("ended_by", reason(generated, screen));
    document.set("prefill_tokens_per_s", prefill).set("decode_tokens_per_s", decode).set("checkpoint", source);
    print(document.dump() + "\n");
}

}  // namespace

int run_generation(const GenerateOptions& options) {
    const WeightsSource source(options.folder);
    const Request request(options, source);
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = 1;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(1));
        Transformer model(engine, request.model, data_parallel_layouts(mesh),
                          options.dtype.value_or(source.job().train.dtype));
        source.load(model);
        Screen screen(request.tokenizer, options);
        screen.show(request.tokenizer.decode(request.prompt));
        const Generated generated =
            generate(engine, model, request.prompt, request.settings, [&](Token token) { return screen.add(token); });
        screen.finish();
        report(request, generated, screen, source.path().string());
    });
    return kExitOk;
}

}  // namespace cleave

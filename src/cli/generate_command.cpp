#include <limits>
#include <optional>

#include "cli/command.h"
#include "cli/dtype_option.h"
#include "train/generate_options.h"
#include "train/generation_run.h"
#include "train/job_keys.h"

namespace cleave::cli {
namespace {

class GenerateCommand : public Command {
  public:
    std::string name() const override { return "generate"; }
    std::string summary() const override { return "write text with a trained model"; }
    std::string examples() const override {
        return "  cleave generate out/tiny\n"
               "  cleave generate models/gpt2 --prompt 'The sea' --top-p 0.9\n"
               "  cleave generate models/chat --prompt 'Q: Why?' --stop 'Q:'\n"
               "The text is shown as it comes; the speed stands on standard error. It ends after\n"
               "--tokens, before a --stop text, or with the model's end-of-text token (of its\n"
               "generation_config.json, config.json or tokenizer). Drawing follows temperature,\n"
               "then --top-k, then --top-p. When the text outgrows the model's positions, it\n"
               "leaves out the oldest half of them and goes on.";
    }
    void declare(Options& options) override {
        options.positional("FOLDER", options_.folder,
                           "the folder of a run (its newest checkpoint), a checkpoint file, or a Hugging Face folder",
                           true);
        options.text("--prompt", "TEXT", prompt_, "the beginning of the text (default: sample.prompt of the run)");
        options.integer("--tokens", tokens_, 1, 1'000'000'000,
                        "how many tokens to write at most (default: sample.tokens of the run)");
        options.number("--temperature", temperature_, 0, kMostTemperature,
                       "0 = always the likeliest token (default: the run's)");
        options.integer("--top-k", top_k_, 0, 1 << 26,
                        "draw from the k likeliest tokens only, 0 = from all (default: the run's)");
        options.number("--top-p", top_p_, 1e-9, 1,
                       "draw from the fewest likeliest tokens whose probabilities add up to p, 1 = from all "
                       "(default: the run's)");
        options.texts("--stop", "TEXT", options_.stops, "end before this text, which is not shown; repeatable");
        options.flag("--ignore-eos", options_.ignore_end, "go on after an end-of-text token");
        options.integer("--seed", options_.seed, 0, std::numeric_limits<std::int64_t>::max(),
                        "another seed gives another text (default: 1)");
        options.text("--dtype", "f32|bf16|f64", dtype_, "compute in it (default: the run's, f32 for others)");
        options.flag("--no-cache", no_cache_,
                     "keep no keys and values: every token passes the whole text again; for comparison");
    }

    int run() override {
        if (prompt_ != kUnset) options_.prompt = prompt_;
        if (tokens_ >= 0) options_.tokens = tokens_;
        if (temperature_ >= 0) options_.temperature = temperature_;
        if (top_k_ >= 0) options_.top_k = top_k_;
        if (top_p_ >= 0) options_.top_p = top_p_;
        options_.dtype = compute_dtype(dtype_);
        options_.cache = !no_cache_;
        options_.json = json;
        return run_generation(options_);
    }

  private:
    inline static const std::string kUnset = std::string(1, '\0');  // no argument of a program can be this
    GenerateOptions options_;
    std::string prompt_ = kUnset;
    std::int64_t tokens_ = -1;
    double temperature_ = -1;
    std::int64_t top_k_ = -1;
    double top_p_ = -1;
    std::string dtype_;
    bool no_cache_ = false;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() {
    return std::make_unique<GenerateCommand>();
}

}  // namespace cleave::cli

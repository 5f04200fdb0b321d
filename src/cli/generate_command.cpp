#include <limits>
#include <optional>

#include "cli/command.h"
#include "train/generate_options.h"
#include "train/generation_run.h"

namespace cleave::cli {
namespace {

class GenerateCommand : public Command {
  public:
    std::string name() const override { return "generate"; }
    std::string summary() const override { return "write text with a trained model"; }
    std::string examples() const override {
        return "  cleave generate out/tiny\n"
               "  cleave generate models/gpt2 --prompt 'The sea'\n"
               "  cleave generate out/tiny --prompt 'The sea' --temperature 0.7 --top-k 20";
    }
    void declare(Options& options) override {
        options.positional("FOLDER", options_.folder,
                           "the folder of a run (its newest checkpoint), a checkpoint file, or a Hugging Face folder",
                           true);
        options.text("--prompt", "TEXT", prompt_, "the beginning of the text (default: sample.prompt of the run)");
        options.integer("--tokens", tokens_, 1, 1'000'000'000,
                        "how many tokens to write (default: sample.tokens of the run)");
        options.number("--temperature", temperature_, 0, 1e15, "0 = always the likeliest token (default: the run's)");
        options.integer("--top-k", top_k_, 0, 1 << 26,
                        "draw from the k likeliest tokens only, 0 = from all (default: the run's)");
        options.integer("--seed", options_.seed, 0, std::numeric_limits<std::int64_t>::max(),
                        "another seed gives another text (default: 1)");
    }

    int run() override {
        if (prompt_ != kUnset) options_.prompt = prompt_;
        if (tokens_ >= 0) options_.tokens = tokens_;
        if (temperature_ >= 0) options_.temperature = temperature_;
        if (top_k_ >= 0) options_.top_k = top_k_;
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
};

}  // namespace

std::unique_ptr<Command> make_generate_command() {
    return std::make_unique<GenerateCommand>();
}

}  // namespace cleave::cli

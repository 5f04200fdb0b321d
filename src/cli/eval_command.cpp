#include "cli/command.h"
#include "cli/dtype_option.h"
#include "cli/ranks_option.h"
#include "train/eval_options.h"
#include "train/eval_run.h"

namespace cleave::cli {
namespace {

class EvalCommand : public Command {
  public:
    std::string name() const override { return "eval"; }
    std::string summary() const override { return "loss and perplexity of a model on a text"; }
    std::string examples() const override {
        return "  cleave eval out/demo --part validation\n"
               "  cleave eval models/gpt2 --data any.txt --stride 512\n"
               "Every token but the first is predicted exactly once, in windows of --context\n"
               "tokens. A window begins --stride tokens after the one before it and counts\n"
               "what that one has not: the smaller the stride, the longer each token's context\n"
               "and the run. Prints the loss (nats a token), the perplexity (its exponential)\n"
               "and bits a byte (total loss in bits over the bytes of the text, which compares\n"
               "tokenizers).";
    }
    void declare(Options& options) override {
        options.positional("FOLDER", options_.folder,
                           "the folder of a run (its newest checkpoint), a checkpoint file, or a Hugging Face folder",
                           true);
        options.text("--data", "FILE", options_.data, "a text or a token file (default: the run's data.path)");
        options.text("--part", "PART", options_.part,
                     "train, validation or all: of the text, as the run's data.train_fraction cuts it (default: all)");
        options.integer("--context", options_.context, 1, 1 << 22,
                        "tokens of a window, at most the model's positions (default: model.context)");
        options.integer("--stride", options_.stride, 1, 1 << 22,
                        "tokens from one window's begin to the next one's (default: --context, no overlap)");
        options.integer("--ranks", ranks_, 1, kMostRanks,
                        "ranks that share the windows, threads of this process (default: 1, with all cores)");
        options.text("--dtype", "f32|bf16|f64", dtype_, "compute in it (default: the run's, f32 for others)");
    }

    bool runs_on_ranks() const override { return true; }
    int run() override {
        options_.ranks = chosen_ranks(ranks_, 1);
        check_threads(options_.ranks, "--ranks");
        options_.dtype = compute_dtype(dtype_);
        options_.json = json;
        return run_evaluation(options_);
    }

  private:
    EvalOptions options_;
    std::int64_t ranks_ = 0;
    std::string dtype_;
};

}  // namespace

std::unique_ptr<Command> make_eval_command() {
    return std::make_unique<EvalCommand>();
}

}  // namespace cleave::cli

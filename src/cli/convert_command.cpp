#include "base/error.h"
#include "cli/command.h"
#include "config/run_file.h"
#include "train/convert.h"

namespace cleave::cli {
namespace {

class ConvertCommand : public Command {
  public:
    std::string name() const override { return "convert"; }
    std::string summary() const override { return "import or export a Hugging Face folder"; }
    std::string examples() const override {
        return "  cleave convert models/gpt2 out/gpt2               import\n"
               "  cleave convert out/demo models/demo --dtype bf16  export, for Transformers\n"
               "A SOURCE with a config.json is a Hugging Face folder (GPT-2, Llama, Qwen2,\n"
               "Qwen3; model.safetensors or its shards); any other is the folder of a run or a\n"
               "checkpoint file. What was written is read again and compared; exit code 1 when\n"
               "it differs.";
    }
    void declare(Options& options) override {
        options.positional("SOURCE", options_.source, "a Hugging Face folder, a run folder or a checkpoint file", true);
        options.positional("DESTINATION", options_.destination, "the folder to write", true);
        options.text("--dtype", "f32|bf16", dtype_, "how values are stored in a Hugging Face folder (default: f32)");
        options.flag("--overwrite", options_.overwrite, "replace a model of the same kind that DESTINATION holds");
    }

    int run() override {
        if (dtype_ != "f32" && dtype_ != "bf16") throw UserError("--dtype: found '{}'; accepted: f32, bf16", dtype_);
        options_.dtype = dtype_from(dtype_);
        options_.json = json;
        options_.run_file = effective_run_file;
        return run_conversion(options_);
    }

  private:
    ConvertOptions options_;
    std::string dtype_ = "f32";
};

}  // namespace

std::unique_ptr<Command> make_convert_command() {
    return std::make_unique<ConvertCommand>();
}

}  // namespace cleave::cli

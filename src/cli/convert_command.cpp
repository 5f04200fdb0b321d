#include <charconv>

#include "base/error.h"
#include "cli/command.h"
#include "config/run_file.h"
#include "train/convert.h"

namespace cleave::cli {
namespace {

// "5GB" as Transformers means it: 5 * 10^9.
std::int64_t bytes_of(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const auto& [name, bytes] : {std::pair{"", 1L}, {"KB", 1'000L}, {"MB", 1'000'000L}, {"GB", 1'000'000'000L}})
        if (problem == std::errc() && unit == name && number > 0 && number <= 1'000'000'000'000'000'000L / bytes)
            return number * bytes;
    throw UserError("--max-shard-size: found '{}'; accepted: a number of bytes, or with KB, MB or GB, such as 5GB",
                    text);
}

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
        options.text("--max-shard-size", "SIZE", shard_size_,
                     "of a weights file in a Hugging Face folder: bytes, KB, MB or GB (default: 5GB)");
        options.flag("--overwrite", options_.overwrite, "replace a model of the same kind that DESTINATION holds");
    }

    int run() override {
        if (dtype_ != "f32" && dtype_ != "bf16") throw UserError("--dtype: found '{}'; accepted: f32, bf16", dtype_);
        options_.dtype = dtype_from(dtype_);
        if (!shard_size_.empty()) options_.shard_bytes = bytes_of(shard_size_);
        options_.json = json;
        options_.run_file = effective_run_file;
        return run_conversion(options_);
    }

  private:
    ConvertOptions options_;
    std::string dtype_ = "f32";
    std::string shard_size_;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() {
    return std::make_unique<ConvertCommand>();
}

}  // namespace cleave::cli

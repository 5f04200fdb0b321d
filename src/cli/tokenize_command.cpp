#include "cli/command.h"
#include "train/tokenize_run.h"

namespace cleave::cli {
namespace {

class TokenizeCommand : public Command {
  public:
    std::string name() const override { return "tokenize"; }
    std::string summary() const override { return "write a text as a file of tokens"; }
    std::string examples() const override {
        return "  cleave tokenize any.txt --tokenizer tokenizer.json -o any.bin\n"
               "  cleave tokenize any.txt --tokenizer bytes -o any.bin --format bin\n"
               "The file is what data.path takes instead of a text. Formats: cleave (checked\n"
               "by sums, knows its tokenizer), bin (16-bit ids alone, as nanoGPT reads them;\n"
               "above 65536 tokens llm.c's header and 32-bit ids), megatron (.bin and .idx). A\n"
               "tokenizer.json is one of byte-level BPE (GPT-2, Llama 3, Qwen); no token is\n"
               "added at the beginning or end, special tokens in the text become theirs.";
    }
    void declare(Options& options) override {
        options.positional("INPUT", options_.input, "the text, any file", true);
        options.text("--tokenizer", "WHICH", options_.tokenizer,
                     "char, bytes, or the path of a Hugging Face tokenizer.json (default: bytes)");
        options.text("-o,--output", "OUT.bin", options_.output, "the file to write (default: INPUT and .bin)");
        options.flag("--overwrite", options_.overwrite, "replace OUT.bin, and OUT.idx, where they exist");
        options.text("--format", "FORMAT", options_.format, "cleave, bin or megatron (default: cleave)");
    }

    int run() override {
        if (options_.output.empty()) options_.output = options_.input + ".bin";
        options_.json = json;
        return run_tokenization(options_);
    }

  private:
    TokenizeOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_tokenize_command() {
    return std::make_unique<TokenizeCommand>();
}

}  // namespace cleave::cli

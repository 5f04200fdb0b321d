#include "train/tokenize_run.h"

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/output.h"
#include "train/token_writer.h"

namespace cleave {
namespace {

TokenFormat format_of(const std::string& word) {
    if (word == "cleave") return TokenFormat::cleave;
    if (word == "bin") return TokenFormat::bin;
    if (word == "megatron") return TokenFormat::megatron;
    throw UserError("--format: found '{}'; accepted: cleave, bin, megatron", word);
}

Tokenizer tokenizer_of(const TokenizeOptions& options, std::string_view text) {
    if (options.tokenizer == "bytes") return Tokenizer::bytes();
    if (options.tokenizer == "char") return Tokenizer::characters(text, options.input);
    if (!std::filesystem::exists(options.tokenizer))
        throw UserError(
            "--tokenizer: found '{}'; accepted: char, bytes, or the path of a tokenizer.json, and there is no "
            "such file",
            options.tokenizer);
    return Tokenizer::bpe(read_bpe(options.tokenizer));
}

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr double kMega = 1e6;

}  // namespace

int run_tokenization(const TokenizeOptions& options) {
    const TokenFormat format = format_of(options.format);
    const std::filesystem::path output = options.output;
    if (output.extension() != ".bin")
        throw UserError(
            "--output: found '{}'; accepted: a name that ends in .bin, by which data.path knows token files",
            options.output);
    const MappedFile file(options.input);
    if (file.size() == 0) throw UserError("'{}' is empty; accepted: a file with text", options.input);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
    const Tokenizer tokenizer = tokenizer_of(options, text);

    const double begin = seconds();
    const auto show = [&](std::size_t done) {
        standard_log().progress(fmt::format("encoding: {:.1f} of {:.1f} MB", static_cast<double>(done) / kMega,
                                            static_cast<double>(text.size()) / kMega));
    };
    const std::vector<Token> tokens = tokenizer.encode(text, options.input, show);
    const double encoded = seconds() - begin;
    standard_log().progress(fmt::format("writing {} tokens", tokens.size()));
    write_token_file(output, format, tokens, tokenizer, hash64(text));
    standard_log().end_progress();

    const double rate = static_cast<double>(text.size()) / kMega / encoded;
    const double bytes_per_token = static_cast<double>(text.size()) / static_cast<double>(tokens.size());
    if (options.json) {
        print(Json{{"output", options.output},
                   {"format", options.format},
                   {"bytes", text.size()},
                   {"tokens", tokens.size()},
                   {"vocabulary", tokenizer.vocabulary()},
                   {"bytes_per_token", bytes_per_token},
                   {"encode_seconds", encoded},
                   {"encode_mb_per_s", rate}}
                  .dump(2) +
              "\n");
    } else {
        print(fmt::format("{}: {} tokens of {} from {} bytes ({:.2f} bytes a token), encoded at {:.1f} MB/s\n",
                          options.output, tokens.size(), tokenizer.vocabulary(), text.size(), bytes_per_token, rate));
    }
    return kExitOk;
}

}  // namespace cleave

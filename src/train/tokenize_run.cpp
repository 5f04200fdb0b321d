#include "train/tokenize_run.h"

#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/output.h"
#include "base/words.h"
#include "train/megatron_index.h"
#include "train/token_writer.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

TokenFormat format_of(const std::string& word) {
    if (word == "cleave") return TokenFormat::cleave;
    if (word == "bin") return TokenFormat::bin;
    if (word == "megatron") return TokenFormat::megatron;
    throw UserError("--format: found '{}'; accepted: cleave, bin, megatron", word);
}

Tokenizer tokenizer_of(const TokenizeOptions& options, std::string_view text) {
    if (options.tokenizer == "bytes") return Tokenizer::bytes();
    if (options.tokenizer == "char") return Tokenizer::characters(text, options.input);
    if (!fs::exists(options.tokenizer))
        throw UserError(
            "--tokenizer: found '{}'; accepted: char, bytes, or the path of a tokenizer.json, and there is no "
            "such file",
            options.tokenizer);
    return Tokenizer::bpe(read_bpe(options.tokenizer));
}

fs::path index_of(const fs::path& output) {
    return fs::path(output).replace_extension(".idx");
}

// What is read is never written over, whatever name it goes by; other files only where the user says so.
void check_replaced(const fs::path& file, const TokenizeOptions& options, std::string_view harm) {
    std::error_code none;
    if (!fs::exists(file, none)) return;
    for (const std::string& read : {options.input, options.tokenizer})
        if (fs::equivalent(file, read, none))
            throw UserError("--output: '{}' is '{}' itself, which is read; accepted: another name", file.string(),
                            read);
    if (!options.overwrite)
        throw UserError("'{}' exists{}; give another name with --output, or --overwrite to replace it", file.string(),
                        harm);
}

void check_output(const TokenizeOptions& options, TokenFormat format) {
    const fs::path output = options.output;
    if (output.extension() != ".bin")
        throw UserError(
            "--output: found '{}'; accepted: a name that ends in .bin, by which data.path knows token files",
            options.output);
    const fs::path index = index_of(output);
    check_replaced(output, options, "");
    check_replaced(index, options,
                   format == TokenFormat::megatron ? "" : ", beside which it would be read as Megatron's");
    if (fs::exists(index) && !is_megatron_index(MappedFile(index).bytes()))
        throw UserError(
            "--output: '{}' exists and is no Megatron index, but would be taken for that of '{}'; accepted: another "
            "name",
            index.string(), options.output);
}

// An index of the file that was replaced would make the new one read as Megatron's.
void remove_stale_index(const fs::path& output, TokenFormat format) {
    std::error_code none;
    if (format == TokenFormat::megatron || !fs::remove(index_of(output), none)) return;
    log_info("removed '{}', the Megatron index of the file that was replaced", index_of(output).string());
}

constexpr double kMega = 1e6;

}  // namespace

int run_tokenization(const TokenizeOptions& options) {
    const TokenFormat format = format_of(options.format);
    check_output(options, format);
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
    standard_log().progress(fmt::format("writing {}", counted(tokens.size(), "token")));
    write_token_file(options.output, format, tokens, tokenizer, hash64(text));
    remove_stale_index(options.output, format);
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
        print(fmt::format("{}: {} of {} from {} ({:.2f} bytes a token), encoded at {:.1f} MB/s\n", options.output,
                          counted(tokens.size(), "token"), tokenizer.vocabulary(), counted(text.size(), "byte"),
                          bytes_per_token, rate));
    }
    return kExitOk;
}

}  // namespace cleave

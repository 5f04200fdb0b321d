#include "train/token_writer.h"

#include <array>
#include <limits>

#include "base/file.h"
#include "train/checkpoint_file.h"
#include "train/megatron_index.h"
#include "train/token_format.h"

namespace cleave {
namespace {

constexpr std::int64_t kMegatronU16 = 65500;
constexpr std::int64_t kFits16 = 65536;

void write_ids(AtomicFile& file, std::span<const Token> tokens, std::size_t width) {
    if (width == sizeof(Token)) {
        file.write(std::as_bytes(tokens));
        return;
    }
    constexpr std::size_t kBlock = 1 << 16;
    std::vector<std::uint16_t> block;
    for (std::size_t at = 0; at < tokens.size(); at += kBlock) {
        block.clear();
        for (const Token token : tokens.subspan(at, std::min(kBlock, tokens.size() - at)))
            block.push_back(static_cast<std::uint16_t>(token));
        file.write(std::as_bytes(std::span(block)));
    }
}

void write_container(const std::filesystem::path& path, std::span<const Token> tokens, const Tokenizer& tokenizer,
                     std::uint64_t text_hash) {
    CheckpointWriter writer;
    writer.add(std::string(kTokensName), dtype_of<Token>(), {static_cast<std::int64_t>(tokens.size())}, tokens.data());
    writer.write(
        path,
        Json::object().set(kTextHashName, fmt::format("{:016x}", text_hash)).set("tokenizer", tokenizer.to_json()));
}

void write_bin(const std::filesystem::path& path, std::span<const Token> tokens, std::int64_t vocabulary) {
    AtomicFile file(path);
    if (vocabulary > kFits16) {
        if (tokens.size() > std::numeric_limits<std::int32_t>::max())
            throw UserError("{} tokens; llm.c's format holds at most {}: take --format cleave or megatron",
                            tokens.size(), std::numeric_limits<std::int32_t>::max());
        std::array<std::int32_t, kLlmcHeaderBytes / sizeof(std::int32_t)> header{};
        header[0] = kLlmcLlama3.magic;
        header[1] = kLlmcLlama3.version;
        header[2] = static_cast<std::int32_t>(tokens.size());
        file.write(std::as_bytes(std::span(header)));
        write_ids(file, tokens, kLlmcLlama3.width);
    } else {
        write_ids(file, tokens, sizeof(std::uint16_t));
    }
    file.commit();
}

void write_megatron(const std::filesystem::path& path, std::span<const Token> tokens, std::int64_t vocabulary) {
    const std::size_t width = vocabulary < kMegatronU16 ? sizeof(std::uint16_t) : sizeof(std::int32_t);
    constexpr std::array<std::int64_t, 1> kOneDocument = {0};
    const std::string index = megatron_index(kOneDocument, static_cast<std::int64_t>(tokens.size()), width);
    AtomicFile file(path);
    write_ids(file, tokens, width);
    file.commit();
    write_file(std::filesystem::path(path).replace_extension(".idx"), index);
}

}  // namespace

void write_token_file(const std::filesystem::path& path, TokenFormat format, std::span<const Token> tokens,
                      const Tokenizer& tokenizer, std::uint64_t text_hash) {
    switch (format) {
        case TokenFormat::cleave: return write_container(path, tokens, tokenizer, text_hash);
        case TokenFormat::bin: return write_bin(path, tokens, tokenizer.vocabulary());
        case TokenFormat::megatron: return write_megatron(path, tokens, tokenizer.vocabulary());
    }
}

}  // namespace cleave

#include "train/token_file.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/log.h"
#include "base/words.h"
#include "comm/launch.h"
#include "train/megatron_index.h"
#include "train/token_format.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

std::int32_t load_i32(std::span<const std::byte> bytes, std::size_t i) {
    std::int32_t value;
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    return value;
}

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

bool is_llmc(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(std::int32_t)) return false;
    return load_i32(bytes, 0) == kLlmcGpt2.magic || load_i32(bytes, 0) == kLlmcLlama3.magic;
}

// A container whose first bytes are damaged would pass for raw ids; its header, which is text, gives it away.
bool holds_container_header(std::span<const std::byte> bytes) {
    constexpr std::size_t kHeaderLies = 1 << 16;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHeaderLies));
    return text.find(R"("metadata")") != text.npos || text.find(R"("xxh64")") != text.npos;
}

}  // namespace

bool is_token_file(const fs::path& path) {
    return path.extension() == ".bin" || path.extension() == ".idx";
}

TokenFile::TokenFile(const fs::path& path) : path_(path) {
    const bool named = is_token_file(path);
    const auto index = fs::path(path).replace_extension(".idx");
    file_.emplace(named ? fs::path(path).replace_extension(".bin") : path);
    if (named && (path.extension() == ".idx" || fs::exists(index)))
        open_megatron(index);
    else if (begins_with(file_->bytes(), "CLEAVE"))
        open_container();
    else if (is_llmc(file_->bytes()))
        open_llmc();
    else
        open_raw();
    if (tokens_.empty()) fail("it holds no tokens");
}

void TokenFile::fail(const std::string& what) const {
    throw UserError("cannot use the token file '{}': {}", path_.string(), what);
}

void TokenFile::announce() const {
    if (comm::process_place().rank == 0)
        log_info("'{}': {}, read as {}", path_.string(), counted(tokens_.size(), "token"), format_);
}

void TokenFile::open_raw() {
    if (holds_container_header(file_->bytes()))
        fail(
            "its first bytes are of no format, but the header of one that Cleave wrote follows: damaged; write it "
            "again");
    format_ = "16-bit ids alone, as nanoGPT writes them: it has no mark of another format";
    set_tokens(file_->bytes(), sizeof(std::uint16_t));
}

void TokenFile::set_tokens(std::span<const std::byte> bytes, std::size_t width) {
    if (bytes.size() % width != 0)
        fail(fmt::format("its {} bytes are no whole number of ids of {} bytes: truncated, or another kind of file",
                         bytes.size(), width));
    tokens_ = TokenView(bytes, width);
    hash_ = hash64(bytes);
}

void TokenFile::open_container() {
    format_ = "Cleave's own format";
    container_.emplace(path_);
    file_.reset();
    const CheckpointTensor* tokens = container_->find(kTokensName);
    if (tokens == nullptr || tokens->dtype != DType::i32 || tokens->shape.rank() != 1)
        fail("it has no list of tokens: a checkpoint?");
    set_tokens(tokens->bytes, sizeof(Token));
    if (const Json* tokenizer = container_->metadata().find("tokenizer")) tokenizer_ = *tokenizer;
}

void TokenFile::open_megatron(const fs::path& index) {
    if (begins_with(file_->bytes(), "CLEAVE"))
        fail(fmt::format(
            "its .bin is of Cleave's own format, but '{}' beside it is an index of Megatron's; remove the .idx",
            index.string()));
    const MappedFile mapped(index);
    MegatronIndex parsed = parse_megatron_index(mapped.bytes(), file_->size(), index.string());
    document_starts_ = std::move(parsed.document_starts);
    format_ = fmt::format("Megatron-LM's ids of {} bytes, with the index '{}'", parsed.width, index.string());
    set_tokens(file_->bytes(), parsed.width);
}

void TokenFile::open_llmc() {
    const auto bytes = file_->bytes();
    if (bytes.size() < kLlmcHeaderBytes)
        fail(fmt::format("it ends after {} bytes, inside the header of llm.c", bytes.size()));
    const LlmcFormat& format = load_i32(bytes, 0) == kLlmcGpt2.magic ? kLlmcGpt2 : kLlmcLlama3;
    if (load_i32(bytes, 1) != format.version)
        fail(fmt::format("its version is {}; accepted: {} for the magic number {}", load_i32(bytes, 1), format.version,
                         format.magic));
    const std::int64_t count = load_i32(bytes, 2);
    const auto data = bytes.subspan(kLlmcHeaderBytes);
    if (count < 0 || static_cast<std::uint64_t>(count) * format.width != data.size())
        fail(fmt::format("its header announces {} ids of {} bytes, {} bytes follow: truncated or altered", count,
                         format.width, data.size()));
    format_ = fmt::format("llm.c's ids of {} bytes", format.width);
    set_tokens(data, format.width);
}

void TokenFile::check_ids(std::int64_t vocabulary, std::string_view reason) const {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        const auto id = static_cast<std::uint32_t>(tokens_[i]);
        if (id < vocabulary) continue;
        fail(fmt::format("token {} of it is {}; accepted: ids from 0 to {} ({})", i, id, vocabulary - 1, reason));
    }
}

}  // namespace cleave

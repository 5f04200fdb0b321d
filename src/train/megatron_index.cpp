#include "train/megatron_index.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/words.h"

namespace cleave {
namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kIndexVersion = 1;
constexpr std::size_t kHeader = 9 + 8 + 1 + 8 + 8;

struct Code {
    std::uint8_t code;
    std::string_view name;
    std::size_t width;  // 0: not read
};
constexpr Code kCodes[] = {{1, "uint8", 1}, {2, "int8", 0},    {3, "int16", 0},   {4, "int32", 4},
                           {5, "int64", 0}, {6, "float64", 0}, {7, "float32", 0}, {8, "uint16", 2}};

template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
}

template <class T>
void store(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

class Parser {
  public:
    Parser(std::span<const std::byte> bytes, std::uint64_t data_bytes, std::string_view source)
        : bytes_(bytes), data_bytes_(data_bytes), source_(source) {}

    MegatronIndex run() {
        header();
        index_.document_starts = starts_of_documents(starts_of_sequences());
        return std::move(index_);
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw UserError("{}: not a Megatron index that can be used: {}", source_, what);
    }

    void header() {
        if (bytes_.size() < kHeader || !is_megatron_index(bytes_)) fail("it does not begin with MMIDIDX and a header");
        if (const auto version = load<std::uint64_t>(bytes_, 9); version != kIndexVersion)
            fail(fmt::format("its version is {}; accepted: {}", version, kIndexVersion));
        set_width(load<std::uint8_t>(bytes_, 17));
        sequences_ = load<std::uint64_t>(bytes_, 18);
        documents_ = load<std::uint64_t>(bytes_, 26);
        const std::uint64_t rest = bytes_.size() - kHeader;
        // Divided, not multiplied: the counts may be anything.
        const bool fits = sequences_ <= rest / 12 && documents_ <= rest / 8 && sequences_ * 12 + documents_ * 8 == rest;
        if (!fits)
            fail(fmt::format("{} and {} do not make its size of {}: truncated or altered",
                             counted(sequences_, "sequence"), counted(documents_, "document index", "document indices"),
                             counted(bytes_.size(), "byte")));
    }

    void set_width(std::uint8_t number) {
        for (const Code& code : kCodes) {
            if (code.code != number) continue;
            if (code.width == 0) fail(fmt::format("its dtype is {}; accepted: uint8, uint16, int32", code.name));
            index_.width = code.width;
            return;
        }
        fail(fmt::format("its dtype code is {}; accepted: 1 (uint8), 4 (int32), 8 (uint16)", number));
    }

    // In tokens, and behind the last the number of all tokens.
    std::vector<std::int64_t> starts_of_sequences() const {
        const std::size_t lengths = kHeader;
        const std::size_t pointers = lengths + sequences_ * 4;
        std::vector<std::int64_t> starts;
        starts.reserve(sequences_ + 1);
        std::uint64_t tokens = 0;
        for (std::size_t i = 0; i < sequences_; ++i) {
            const auto length = load<std::int32_t>(bytes_, lengths + i * 4);
            const auto pointer = load<std::int64_t>(bytes_, pointers + i * 8);
            if (length < 0) fail(fmt::format("sequence {} has {} tokens", i, length));
            if (static_cast<std::uint64_t>(pointer) != tokens * index_.width)
                fail(fmt::format("sequence {} begins at byte {}; accepted: {}, where the one before it ends", i,
                                 pointer, tokens * index_.width));
            starts.push_back(static_cast<std::int64_t>(tokens));
            tokens += static_cast<std::uint64_t>(length);
            if (tokens * index_.width > data_bytes_) break;
        }
        if (tokens * index_.width != data_bytes_)
            fail(fmt::format(
                "its sequences have {} tokens of {} bytes or more, its .bin has {} bytes: truncated or altered", tokens,
                index_.width, data_bytes_));
        starts.push_back(static_cast<std::int64_t>(tokens));
        return starts;
    }

    std::vector<std::int64_t> starts_of_documents(const std::vector<std::int64_t>& sequences) const {
        const std::size_t indices = kHeader + sequences_ * 12;
        std::vector<std::int64_t> starts;
        std::uint64_t previous = 0;
        for (std::size_t i = 0; i < documents_; ++i) {
            const auto index = load<std::uint64_t>(bytes_, indices + i * 8);
            if (index < previous || index > sequences_ || (i == 0 && index != 0))
                fail(
                    fmt::format("document index {} is {}; accepted: 0 first, then rising to {}", i, index, sequences_));
            previous = index;
            const std::int64_t start = sequences[index];
            if (start < sequences.back() && (starts.empty() || starts.back() < start)) starts.push_back(start);
        }
        if (previous != sequences_)
            fail(fmt::format("its last document index is {}; accepted: {}, the number of sequences", previous,
                             sequences_));
        return starts;
    }

    std::span<const std::byte> bytes_;
    std::uint64_t data_bytes_;
    std::string_view source_;
    MegatronIndex index_;
    std::uint64_t sequences_ = 0;
    std::uint64_t documents_ = 0;
};

}  // namespace

bool is_megatron_index(std::span<const std::byte> bytes) {
    return bytes.size() >= kIndexMagic.size() && std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) == 0;
}

MegatronIndex parse_megatron_index(std::span<const std::byte> bytes, std::uint64_t data_bytes,
                                   std::string_view source) {
    return Parser(bytes, data_bytes, source).run();
}

std::string megatron_index(std::span<const std::int64_t> document_starts, std::int64_t tokens, std::size_t width) {
    std::string bytes(kIndexMagic);
    store(bytes, kIndexVersion);
    store(bytes, static_cast<std::uint8_t>(width == 2 ? 8 : width == 4 ? 4 : 1));
    store(bytes, std::uint64_t{document_starts.size()});
    store(bytes, std::uint64_t{document_starts.size() + 1});
    for (std::size_t i = 0; i < document_starts.size(); ++i) {
        const std::int64_t end = i + 1 < document_starts.size() ? document_starts[i + 1] : tokens;
        const std::int64_t length = end - document_starts[i];
        if (length > std::numeric_limits<std::int32_t>::max())
            throw UserError("a document of {} tokens; the Megatron format holds at most {} in one", length,
                            std::numeric_limits<std::int32_t>::max());
        store(bytes, static_cast<std::int32_t>(length));
    }
    for (const std::int64_t start : document_starts) store(bytes, start * static_cast<std::int64_t>(width));
    for (std::size_t i = 0; i <= document_starts.size(); ++i) store(bytes, static_cast<std::int64_t>(i));
    return bytes;
}

}  // namespace cleave

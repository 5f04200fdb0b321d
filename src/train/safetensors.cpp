#include "train/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/words.h"

namespace cleave {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;              // the header's length
constexpr std::size_t kLongestHeader = 100'000'000;  // as the format's own library has it
constexpr std::string_view kMetadata = "__metadata__";

std::string_view header_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The checks of one file.
class HeaderVerifier {
  public:
    explicit HeaderVerifier(const std::filesystem::path& path) : path_(path) {}

    [[noreturn]] void fail(const std::string& what) const {
        throw UserError("cannot use '{}': {}", path_.string(), what);
    }

    // The header, and what follows it.
    std::pair<Json, std::span<const std::byte>> split(std::span<const std::byte> bytes) const {
        if (bytes.size() < kLengthBytes)
            fail(fmt::format("it has {}; a safetensors file begins with 8 for the length of its header",
                             counted(bytes.size(), "byte")));
        std::uint64_t length;
        std::memcpy(&length, bytes.data(), kLengthBytes);
        if (length > kLongestHeader)
            fail(fmt::format("its header should have {} bytes; accepted: at most {} (is it a safetensors file?)",
                             length, kLongestHeader));
        if (length > bytes.size() - kLengthBytes)
            fail(fmt::format("its header should have {}, {} are left in the file: truncated or altered",
                             counted(length, "byte"), bytes.size() - kLengthBytes));
        const auto header = bytes.subspan(kLengthBytes, static_cast<std::size_t>(length));
        Json json = Json::parse(header_text(header), path_.string());
        if (json.members() == nullptr) fail("its header is no JSON object");
        return {std::move(json), bytes.subspan(kLengthBytes + header.size())};
    }

    SafetensorsTensor tensor(const std::string& name, const Json& entry, std::span<const std::byte> data) const {
        const Json* word = entry.find("dtype");
        const auto type = word == nullptr || word->string() == nullptr ? std::nullopt : stored_type(*word->string());
        if (!type)
            fail(fmt::format("tensor '{}' has the dtype {}, which the format does not know", name,
                             word == nullptr ? "(none)" : word->dump()));
        SafetensorsTensor tensor{name, *type, shape(name, entry), {}};
        const auto [begin, end] = offsets(name, entry, data.size());
        const std::uint64_t size = size_of_values(tensor);
        if (end - begin != size)
            fail(fmt::format("tensor '{}' has {}, its shape {} and dtype {} need {}", name,
                             counted(end - begin, "byte"), to_string(tensor.shape), type->name, size));
        tensor.bytes = data.subspan(begin, end - begin);
        return tensor;
    }

    // Sorts the tensors by their bytes, which must tile `data`.
    void check_tiling(std::vector<SafetensorsTensor>& tensors, std::span<const std::byte> data) const {
        std::stable_sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
            return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
        });
        const std::byte* at = data.data();
        for (const SafetensorsTensor& tensor : tensors) {
            if (tensor.bytes.data() != at)
                fail(
                    fmt::format("tensor '{}' begins at byte {} of the data, where {} ends what is before it: a hole or "
                                "an overlap",
                                tensor.name, tensor.bytes.data() - data.data(), at - data.data()));
            at += tensor.bytes.size();
        }
        if (at != data.data() + data.size())
            fail(fmt::format("it has {} after its last tensor", counted(data.data() + data.size() - at, "byte")));
    }

  private:
    Shape shape(const std::string& name, const Json& entry) const {
        const Json* list = entry.find("shape");
        if (list == nullptr || list->items() == nullptr || list->items()->size() > kMaxRank)
            fail(fmt::format("tensor '{}' has no shape of at most {} dims", name, kMaxRank));
        Shape shape;
        for (const Json& item : *list->items()) {
            if (item.integer() == nullptr || *item.integer() < 0)
                fail(fmt::format("tensor '{}' has a shape that is none: {}", name, list->dump()));
            shape.push_back(*item.integer());
        }
        return shape;
    }

    std::uint64_t size_of_values(const SafetensorsTensor& tensor) const {
        auto size = static_cast<std::uint64_t>(tensor.type.bits / 8);
        for (const std::int64_t extent : tensor.shape) {
            if (extent > 0 && size > std::numeric_limits<std::uint64_t>::max() / static_cast<std::uint64_t>(extent))
                fail(fmt::format("tensor '{}' has a shape of more than 2^64 bytes: {}", tensor.name,
                                 to_string(tensor.shape)));
            size *= static_cast<std::uint64_t>(extent);
        }
        return size;
    }

    std::pair<std::size_t, std::size_t> offsets(const std::string& name, const Json& entry, std::size_t size) const {
        const Json* pair = entry.find("data_offsets");
        const auto* items = pair == nullptr ? nullptr : pair->items();
        const auto is_offset = [](const Json& item) { return item.integer() != nullptr && *item.integer() >= 0; };
        if (items == nullptr || items->size() != 2 || !is_offset(items->front()) || !is_offset(items->back()))
            fail(fmt::format("tensor '{}' has no 'data_offsets' of two numbers", name));
        const auto begin = static_cast<std::size_t>(*items->front().integer());
        const auto end = static_cast<std::size_t>(*items->back().integer());
        if (begin > end || end > size)
            fail(fmt::format("tensor '{}' should be bytes {} to {} of the data, the file has {}: truncated or altered",
                             name, begin, end, size));
        return {begin, end};
    }

    const std::filesystem::path& path_;
};

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
    const HeaderVerifier verifier(path_);
    const auto [header, data] = verifier.split(file_.bytes());
    for (const auto& [name, entry] : *header.members())
        if (name != kMetadata) tensors_.push_back(verifier.tensor(name, entry, data));
    verifier.check_tiling(tensors_, data);
}

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& folder) {
    const std::filesystem::path single = folder / kWeightsName;
    const std::filesystem::path index = folder / kIndexName;
    if (std::filesystem::exists(single)) {
        files_.emplace_back(single);
        for (const SafetensorsTensor& tensor : files_.front().tensors()) add(tensor);
    } else if (std::filesystem::exists(index)) {
        open_shards(folder, index);
    } else {
        const bool pickled = std::filesystem::exists(folder / "pytorch_model.bin");
        throw UserError("{} holds neither {} nor {}{}", folder.string(), kWeightsName, kIndexName,
                        pickled ? "; its pytorch_model.bin is not read: Transformers' save_pretrained() writes "
                                  "safetensors"
                                : "");
    }
}

void SafetensorsFolder::open_shards(const std::filesystem::path& folder, const std::filesystem::path& index) {
    const std::string source = index.string();
    const Json json = Json::parse(read_text_file(index), source);
    const Json* names = json.find("weight_map");
    if (names == nullptr || names->members() == nullptr)
        throw UserError("cannot use '{}': it has no 'weight_map'", source);
    std::map<std::string, std::string, std::less<>> file_of;  // by tensor
    std::map<std::string, std::size_t> files;
    for (const auto& [tensor, file] : *names->members()) {
        const bool plain = file.string() != nullptr && !file.string()->empty() && *file.string() != ".." &&
                           std::filesystem::path(*file.string()).filename() == *file.string();
        if (!plain)
            throw UserError("cannot use '{}': '{}' is in {}; accepted: the name of a file in the same folder", source,
                            tensor, file.dump());
        file_of.emplace(tensor, *file.string());
        files.emplace(*file.string(), 0);
    }
    files_.reserve(files.size());  // the map points into them
    for (const auto& [name, unused] : files) {
        files_.emplace_back(folder / name);
        for (const SafetensorsTensor& tensor : files_.back().tensors()) {
            const auto place = file_of.find(tensor.name);
            if (place == file_of.end() || place->second != name)
                throw UserError("cannot use '{}': it does not say that '{}' is in {}, where it stands", source,
                                tensor.name, name);
            add(tensor);
        }
    }
    for (const auto& [tensor, file] : file_of)
        if (find(tensor) == nullptr)
            throw UserError("cannot use '{}': {} does not hold '{}'", source, (folder / file).string(), tensor);
}

const SafetensorsTensor* SafetensorsFolder::find(std::string_view name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : at->second;
}

}  // namespace cleave

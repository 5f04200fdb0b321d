#include "train/checkpoint_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "base/words.h"

namespace cleave {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kMagic = "CLEAVE";
constexpr std::string_view kVersion = "01";
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPrefix = 24;
constexpr std::string_view kLatest = "latest";
constexpr std::size_t kMostMarkerBytes = 4096;  // a file name

constexpr std::size_t aligned(std::size_t offset) {
    return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

std::string hex(std::uint64_t value) {
    return fmt::format("{:016x}", value);
}

std::uint64_t load_u64(std::span<const std::byte> bytes, std::size_t at) {
    std::uint64_t value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Json shape_json(const Shape& shape) {
    Json json = Json::array();
    for (std::int64_t extent : shape) json.push(extent);
    return json;
}

bool all_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// The verification of one file, part by part.
class Verifier {
  public:
    Verifier(const std::filesystem::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

    Json header() const {
        if (bytes_.size() < kMagic.size() || text_of(bytes_.first(kMagic.size())) != kMagic)
            fail(bytes_.empty() ? "it is empty" : "it does not start with the word CLEAVE: another kind of file");
        if (bytes_.size() < kPrefix)
            fail(fmt::format("it ends after {}, inside its first line", counted(bytes_.size(), "byte")));
        const auto version = text_of(bytes_.subspan(kMagic.size(), kVersion.size()));
        if (version != kVersion)
            fail(fmt::format("its format version is '{}', this program reads version {}", Json(version).dump(),
                             kVersion));
        const std::uint64_t length = load_u64(bytes_, 8);
        if (length > bytes_.size() - kPrefix)
            fail(fmt::format("its header should have {}, {} are left in the file: truncated or altered",
                             counted(length, "byte"), bytes_.size() - kPrefix));
        const auto text = bytes_.subspan(kPrefix, static_cast<std::size_t>(length));
        if (hash64(text) != load_u64(bytes_, 16)) fail("the checksum of its header does not match: altered");
        return Json::parse(text_of(text), path_.string());
    }

    std::size_t header_end() const { return kPrefix + static_cast<std::size_t>(load_u64(bytes_, 8)); }

    // One entry of the header's list; the data before it ends at `previous_end`.
    CheckpointTensor tensor(const Json& entry, std::size_t previous_end) const {
        const Json* name = entry.find("name");
        if (name == nullptr || name->string() == nullptr) fail("a tensor has no name");
        CheckpointTensor tensor{*name->string(), dtype(entry, *name->string()), Shape(), {}};
        const std::size_t size = size_of_values(entry, tensor);
        const auto begin = offset(entry, "begin", tensor.name);
        const auto end = offset(entry, "end", tensor.name);
        if (begin > end || end > bytes_.size())
            fail(fmt::format("tensor '{}' should be bytes {} to {}, the file has {}: truncated or altered", tensor.name,
                             begin, end, bytes_.size()));
        if (begin < previous_end || begin % kAlignment != 0 || begin - previous_end >= kAlignment)
            fail(fmt::format("tensor '{}' begins at byte {}, which overlaps or does not follow what is before it ({})",
                             tensor.name, begin, previous_end));
        if (end - begin != size)
            fail(fmt::format("tensor '{}' has {}, its shape and dtype need {}", tensor.name,
                             counted(end - begin, "byte"), size));
        tensor.bytes = bytes_.subspan(begin, size);
        const Json* checksum = entry.find("xxh64");
        if (checksum == nullptr || *checksum != Json(hex(hash64(tensor.bytes))))
            fail(fmt::format("the checksum of tensor '{}' does not match: altered", tensor.name));
        check_gap(previous_end, begin);
        return tensor;
    }

    void check_end(std::size_t end) const {
        if (end != bytes_.size())
            fail(fmt::format("it has {} after its last tensor", counted(bytes_.size() - end, "byte")));
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw UserError("cannot use '{}': {}", path_.string(), what);
    }

  private:
    void check_gap(std::size_t begin, std::size_t end) const {
        if (!all_zero(bytes_.subspan(begin, end - begin)))
            fail(fmt::format("bytes {} to {} should be zero: altered", begin, end));
    }

    DType dtype(const Json& entry, const std::string& name) const {
        const Json* word = entry.find("dtype");
        for (DType dtype : kAllDTypes)
            if (word != nullptr && *word == Json(name_of(dtype))) return dtype;
        fail(fmt::format("tensor '{}' has no known dtype", name));
    }

    // Sets the shape and returns the bytes of its values; refuses what does not fit the file before it can overflow.
    std::size_t size_of_values(const Json& entry, CheckpointTensor& tensor) const {
        const Json* shape = entry.find("shape");
        if (shape == nullptr || shape->items() == nullptr || shape->items()->size() > kMaxRank)
            fail(fmt::format("tensor '{}' has no shape of at most {} dims", tensor.name, kMaxRank));
        std::uint64_t size = static_cast<std::uint64_t>(size_of(tensor.dtype));
        for (const Json& item : *shape->items()) {
            const std::int64_t* extent = item.integer();
            if (extent == nullptr || *extent < 0)
                fail(fmt::format("tensor '{}' has a shape that is none", tensor.name));
            if (*extent > 0 && size > std::numeric_limits<std::uint64_t>::max() / static_cast<std::uint64_t>(*extent))
                fail(fmt::format("tensor '{}' has a shape of more than 2^64 bytes", tensor.name));
            size *= static_cast<std::uint64_t>(*extent);
            tensor.shape.push_back(*extent);
        }
        return size;
    }

    std::size_t offset(const Json& entry, std::string_view key, const std::string& name) const {
        const Json* value = entry.find(key);
        if (value == nullptr || value->integer() == nullptr || *value->integer() < 0)
            fail(fmt::format("tensor '{}' has no '{}'", name, key));
        return static_cast<std::size_t>(*value->integer());
    }

    const std::filesystem::path& path_;
    std::span<const std::byte> bytes_;
};

}  // namespace

CheckpointWriter::Item& CheckpointWriter::new_item(std::string name, DType dtype, const Shape& shape) {
    CLEAVE_CHECK(index_.emplace(name, items_.size()).second, "tensor '{}' twice", name);
    return items_.emplace_back(Item{std::move(name), dtype, shape});
}

void CheckpointWriter::add(std::string name, DType dtype, const Shape& shape, const void* data) {
    Item& item = new_item(std::move(name), dtype, shape);
    item.bytes = {static_cast<const std::byte*>(data), item.size()};
}

void CheckpointWriter::declare(std::string name, DType dtype, const Shape& shape) {
    new_item(std::move(name), dtype, shape);
}

void CheckpointWriter::write(const std::filesystem::path& path, const Json& metadata) {
    open(path, metadata);
    for (const Item& item : items_) put(item.name, item.bytes);
    commit();
}

std::string CheckpointWriter::header() const {
    Json tensors = Json::array();
    for (const Item& item : items_)
        tensors.push(Json::object()
                         .set("name", item.name)
                         .set("dtype", name_of(item.dtype))
                         .set("shape", shape_json(item.shape))
                         .set("begin", item.begin)
                         .set("end", item.begin + item.size())
                         .set("xxh64", item.checksum));
    return Json::object().set("metadata", metadata_).set("tensors", std::move(tensors)).dump();
}

void CheckpointWriter::place_items(std::size_t start) {
    for (Item& item : items_) {
        item.begin = aligned(start);
        start = item.begin + item.size();
    }
}

void CheckpointWriter::open(const std::filesystem::path& path, const Json& metadata) {
    metadata_ = metadata;
    for (Item& item : items_) item.checksum = hex(0);  // as long as any
    // Offsets stand in the header and depend on its length; so they are taken from a first header in which every number
    // is as wide as it can become.
    constexpr std::size_t kWidest = std::size_t{1} << 60;
    place_items(kWidest);
    header_length_ = aligned(kPrefix + header().size()) - kPrefix;
    place_items(kPrefix + header_length_);
    file_.emplace(path);
}

void CheckpointWriter::put(const std::string& name, std::span<const std::byte> bytes) {
    Item& item = items_[index_.at(name)];
    CLEAVE_CHECK(bytes.size() == item.size(), "{} bytes of '{}', which has {}", bytes.size(), name, item.size());
    item.checksum = hex(hash64(bytes));
    file_->write_at(item.begin, bytes);
}

void CheckpointWriter::commit() {
    std::string text = header();
    text.resize(header_length_, ' ');  // spaces after the document are JSON's own filler
    const std::array<std::uint64_t, 2> numbers = {header_length_, hash64(text)};
    const std::string magic = std::string(kMagic) + std::string(kVersion);
    file_->write_at(0, std::as_bytes(std::span(magic)));
    file_->write(std::as_bytes(std::span(numbers)));
    file_->write(text);
    file_->commit();
    file_.reset();
}

CheckpointFile::CheckpointFile(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
    const Verifier verifier(path_, file_.bytes());
    const Json header = verifier.header();
    const Json* metadata = header.find("metadata");
    const Json* tensors = header.find("tensors");
    if (metadata == nullptr || tensors == nullptr || tensors->items() == nullptr)
        verifier.fail("its header lacks 'metadata' or 'tensors'");
    metadata_ = *metadata;
    std::size_t end = verifier.header_end();
    for (const Json& entry : *tensors->items()) {
        tensors_.push_back(verifier.tensor(entry, end));
        end = static_cast<std::size_t>(tensors_.back().bytes.data() - file_.bytes().data()) +
              tensors_.back().bytes.size();
        if (!index_.emplace(tensors_.back().name, tensors_.size() - 1).second)
            verifier.fail(fmt::format("tensor '{}' stands in it twice", tensors_.back().name));
    }
    verifier.check_end(end);
}

const CheckpointTensor* CheckpointFile::find(std::string_view name) const {
    const auto at = index_.find(name);
    return at == index_.end() ? nullptr : &tensors_[at->second];
}

const CheckpointTensor& CheckpointFile::expect(std::string_view name, DType dtype, const Shape& shape) const {
    const CheckpointTensor* tensor = find(name);
    if (tensor == nullptr) throw UserError("cannot use '{}': it holds no tensor '{}'", path_.string(), name);
    if (tensor->dtype != dtype || tensor->shape != shape)
        throw UserError("cannot use '{}': tensor '{}' is {} {} in it, this run needs {} {}", path_.string(), name,
                        name_of(tensor->dtype), to_string(tensor->shape), name_of(dtype), to_string(shape));
    return *tensor;
}

void CheckpointFile::read(std::string_view name, DType dtype, const Shape& shape, void* destination) const {
    read_range(name, dtype, shape, 0, shape.elements(), destination);
}

void CheckpointFile::read_range(std::string_view name, DType dtype, const Shape& shape, std::int64_t first,
                                std::int64_t count, void* destination) const {
    const CheckpointTensor& tensor = expect(name, dtype, shape);
    CLEAVE_CHECK(first >= 0 && count >= 0 && first <= shape.elements() && count <= shape.elements() - first,
                 "elements {} to {} of {} in '{}'", first, first + count, shape.elements(), name);
    const auto bytes = tensor.bytes.subspan(static_cast<std::size_t>(first * size_of(dtype)),
                                            static_cast<std::size_t>(count * size_of(dtype)));
    if (!bytes.empty()) std::memcpy(destination, bytes.data(), bytes.size());
}

bool is_checkpoint_file(const std::filesystem::path& path) {
    const MappedFile file(path);
    return file.size() >= kMagic.size() && text_of(file.bytes().first(kMagic.size())) == kMagic;
}

void mark_latest(const std::filesystem::path& checkpoint) {
    write_file(checkpoint.parent_path() / kLatest, checkpoint.filename().string() + "\n");
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder) {
    const auto marker = folder / kLatest;
    if (!std::filesystem::exists(marker)) return std::nullopt;
    std::string name = read_text_file(marker, kMostMarkerBytes);
    while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
    const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
    if (!plain || !std::filesystem::is_regular_file(folder / name))
        throw UserError("cannot use '{}': it should name a checkpoint in its folder, it says '{}'", marker.string(),
                        name);
    return folder / name;
}

}  // namespace cleave

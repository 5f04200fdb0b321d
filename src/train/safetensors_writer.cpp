// The writing half of train/safetensors.h.
#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "train/safetensors.h"

namespace cleave {

namespace {

constexpr std::size_t kFirstTensorAlignment = 8;  // of the first tensor in the file, as the format's own library has it
constexpr std::int64_t kBlockElements = 1 << 20;  // converted at a time

std::int64_t stored_bytes(const Shape& shape, DType stored) {
    return shape.elements() * size_of(stored);
}

}  // namespace

void SafetensorsWriter::add(std::string name, const Shape& shape, DType dtype, const void* data, DType stored) {
    for (const Item& item : items_) CLEAVE_CHECK(item.name != name, "tensor '{}' twice", name);
    items_.push_back({std::move(name), shape, dtype, static_cast<const std::byte*>(data), stored});
}

bool is_weights_name(std::string_view name) {
    constexpr std::string_view kDigits = "0123456789", kPattern = "model-00000-of-00000.safetensors";
    if (name == kWeightsName || name == kIndexName) return true;
    if (name.size() != kPattern.size()) return false;
    for (std::size_t i = 0; i < name.size(); ++i)
        if (kPattern[i] == '0' ? kDigits.find(name[i]) == std::string_view::npos : name[i] != kPattern[i]) return false;
    return true;
}

std::string SafetensorsWriter::header(std::span<const Item> items) const {
    // "format" says to Transformers that the tensors are laid out as PyTorch's.
    Json metadata{{"format", "pt"}};
    for (const auto& alias : aliases_)
        if (std::any_of(items.begin(), items.end(), [&](const Item& item) { return item.name == alias.second; }))
            metadata.set(alias.first, alias.second);
    Json json{{"__metadata__", std::move(metadata)}};
    std::int64_t end = 0;
    for (const Item& item : items) {
        Json shape = Json::array();
        for (const std::int64_t extent : item.shape) shape.push(extent);
        const std::int64_t begin = end;
        end += stored_bytes(item.shape, item.stored);
        json.append(item.name, Json{{"dtype", stored_as(item.stored).name},
                                    {"shape", std::move(shape)},
                                    {"data_offsets", Json(Json::Array{begin, end})}});
    }
    std::string text = json.dump();
    text.resize((text.size() + kFirstTensorAlignment - 1) / kFirstTensorAlignment * kFirstTensorAlignment, ' ');
    return text;
}

void SafetensorsWriter::write_values(AtomicFile& file, const Item& item) {
    const auto bytes_of = [](std::int64_t elements, DType dtype) {
        return static_cast<std::size_t>(elements * size_of(dtype));
    };
    const std::int64_t elements = item.shape.elements();
    if (item.dtype == item.stored) return file.write({item.data, bytes_of(elements, item.dtype)});
    std::vector<std::byte> block(bytes_of(std::min(elements, kBlockElements), item.stored));
    for (std::int64_t first = 0; first < elements; first += kBlockElements) {
        const std::int64_t count = std::min(kBlockElements, elements - first);
        convert_values(stored_as(item.dtype), {item.data + bytes_of(first, item.dtype), bytes_of(count, item.dtype)},
                       item.stored, block.data());
        file.write(std::span(block).first(bytes_of(count, item.stored)));
    }
}

void SafetensorsWriter::write(const std::filesystem::path& path, std::span<const Item> items) const {
    const std::string text = header(items);
    const auto length = static_cast<std::uint64_t>(text.size());
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(&length, 1)));
    file.write(text);
    for (const Item& item : items) write_values(file, item);
    file.commit();
}

std::vector<std::span<const SafetensorsWriter::Item>> SafetensorsWriter::shards(std::int64_t most_bytes) const {
    std::vector<std::span<const Item>> all;
    std::size_t begin = 0;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const std::int64_t more = stored_bytes(items_[i].shape, items_[i].stored);
        if (i > begin && bytes + more > most_bytes) {
            all.push_back(std::span(items_).subspan(begin, i - begin));
            begin = i;
            bytes = 0;
        }
        bytes += more;
    }
    all.push_back(std::span(items_).subspan(begin));
    return all;
}

void SafetensorsWriter::write_folder(const std::filesystem::path& folder, std::int64_t shard_bytes) const {
    const auto parts = shards(shard_bytes);
    std::set<std::string, std::less<>> written;
    if (parts.size() == 1) {
        write(folder / kWeightsName);
        written.emplace(kWeightsName);
    } else {
        std::filesystem::remove(folder / kIndexName);  // until every shard is there
        std::int64_t total = 0;
        Json weight_map = Json::object();
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
            write(folder / name, parts[i]);
            written.insert(name);
            for (const Item& item : parts[i]) {
                weight_map.append(item.name, name);
                total += stored_bytes(item.shape, item.stored);
            }
        }
        const Json index{{"metadata", Json{{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
        write_file(folder / kIndexName, index.dump(2) + "\n");
        written.emplace(kIndexName);
    }
    std::vector<std::filesystem::path> old;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (is_weights_name(name) && !written.contains(name)) old.push_back(entry.path());
    }
    for (const auto& path : old) std::filesystem::remove(path);
}

}  // namespace cleave

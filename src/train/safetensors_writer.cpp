// The writing half of train/safetensors.h.
#include <cstring>

#include "base/error.h"
#include "train/safetensors.h"

namespace cleave {

namespace {

constexpr std::size_t kAlignment = 8;             // of the first tensor in the file, as the format's own library has it
constexpr std::int64_t kBlockElements = 1 << 20;  // converted at a time

std::int64_t stored_bytes(const Shape& shape, DType stored) {
    return shape.elements() * size_of(stored);
}

}  // namespace

void SafetensorsWriter::add(std::string name, const Shape& shape, DType dtype, const void* data, DType stored) {
    for (const Item& item : items_) CLEAVE_CHECK(item.name != name, "tensor '{}' twice", name);
    items_.push_back({std::move(name), shape, dtype, static_cast<const std::byte*>(data), stored});
}

std::string SafetensorsWriter::header() const {
    // "format" says to Transformers that the tensors are laid out as PyTorch's.
    Json metadata{{"format", "pt"}};
    for (const auto& [alias, name] : aliases_) metadata.set(alias, name);
    Json json{{"__metadata__", std::move(metadata)}};
    std::int64_t end = 0;
    for (const Item& item : items_) {
        Json shape = Json::array();
        for (const std::int64_t extent : item.shape) shape.push(extent);
        const std::int64_t begin = end;
        end += stored_bytes(item.shape, item.stored);
        json.append(item.name, Json{{"dtype", stored_as(item.stored).name},
                                    {"shape", std::move(shape)},
                                    {"data_offsets", Json(Json::Array{begin, end})}});
    }
    std::string text = json.dump();
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
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

void SafetensorsWriter::write(const std::filesystem::path& path) const {
    const std::string text = header();
    const auto length = static_cast<std::uint64_t>(text.size());
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(&length, 1)));
    file.write(text);
    for (const Item& item : items_) write_values(file, item);
    file.commit();
}

}  // namespace cleave

// Files of named tensors in the safetensors format (github.com/huggingface/safetensors, "Format"):
//
//   bytes 0-7   length n of the header, u64, little-endian
//   n bytes     the header, JSON: {"__metadata__": {"format": "pt", ..}, "name": {"dtype": "F32", "shape": [2, 3],
//               "data_offsets": [begin, end]}, ..}, offsets counted from the header's end; spaces may follow it
//   the rest    the tensors' values, row-major; they tile it without hole or overlap
//
// A file is mapped: reading a tensor moves its bytes once, from the page cache to their destination. Everything that
// the header claims is checked against the file before it is used. Thread rule: immutable after construction.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/shape.h"
#include "train/safetensors_values.h"

namespace cleave {

struct SafetensorsTensor {
    std::string name;
    StoredType type;
    Shape shape;
    std::span<const std::byte> bytes;  // anyhow aligned
};

class SafetensorsFile {
  public:
    // Throws UserError: the file, and what is wrong in it.
    explicit SafetensorsFile(std::filesystem::path path);

    const std::filesystem::path& path() const { return path_; }
    const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }  // in the order of their bytes

  private:
    std::filesystem::path path_;
    MappedFile file_;
    std::vector<SafetensorsTensor> tensors_;
};

// The weights of a folder: model.safetensors, or the files that model.safetensors.index.json names.
class SafetensorsFolder {
  public:
    // Throws UserError where there are neither, or one is wrong.
    explicit SafetensorsFolder(const std::filesystem::path& folder);

    const SafetensorsTensor* find(std::string_view name) const;  // nullptr: not there
    const std::map<std::string, const SafetensorsTensor*, std::less<>>& tensors() const { return tensors_; }

  private:
    void add(const SafetensorsTensor& tensor) { tensors_.emplace(tensor.name, &tensor); }
    void open_shards(const std::filesystem::path& folder, const std::filesystem::path& index);

    std::vector<SafetensorsFile> files_;
    std::map<std::string, const SafetensorsTensor*, std::less<>> tensors_;
};

inline constexpr std::string_view kWeightsName = "model.safetensors";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
inline constexpr std::int64_t kShardBytes = 5'000'000'000;  // as Transformers cuts

// Whether a file of this name holds weights of a Hugging Face folder: whole, a shard, or their index.
bool is_weights_name(std::string_view name);

// Collects what a file shall hold, then writes it as a whole. Nothing is copied: data must stay as it is until write()
// returns; values are converted a block at a time.
class SafetensorsWriter {
  public:
    // `data`: values of the floating dtype `dtype`, stored as `stored` (f32, bf16 or f64).
    void add(std::string name, const Shape& shape, DType dtype, const void* data, DType stored);
    // Says in the header that `alias` is the tensor `name`, which stands in the file once.
    void add_alias(std::string alias, std::string name) { aliases_.emplace_back(std::move(alias), std::move(name)); }
    // Atomically (base/file.h). Throws UserError where it cannot be written.
    void write(const std::filesystem::path& path) const { write(path, items_); }
    // Into a folder, the order kept: kWeightsName, or, where the values are more than `shard_bytes`, shards of at most
    // so many (a larger tensor has one of its own) and kIndexName. Weights that were there before go. Cut short, the
    // folder holds what it held, or nothing that could be taken for a model.
    void write_folder(const std::filesystem::path& folder, std::int64_t shard_bytes = kShardBytes) const;

  private:
    struct Item {
        std::string name;
        Shape shape;
        DType dtype;
        const std::byte* data;
        DType stored;
    };
    std::string header(std::span<const Item> items) const;
    void write(const std::filesystem::path& path, std::span<const Item> items) const;
    std::vector<std::span<const Item>> shards(std::int64_t most_bytes) const;
    static void write_values(AtomicFile& file, const Item& item);

    std::vector<Item> items_;
    std::vector<std::pair<std::string, std::string>> aliases_;
};

}  // namespace cleave

// Named tensors in one file: checkpoints and token files. Free of layout: a tensor stands under its name with its
// global shape, in row-major order of the global index.
//
//   bytes 0-7    "CLEAVE" and the format's version, two digits: "CLEAVE01"
//   bytes 8-15   length of the header text, u64        bytes 16-23   its XXH64
//   bytes 24-    the header text, JSON: {"metadata": {...}, "tensors": [{"name", "dtype", "shape", "begin", "end",
//   "xxh64"}, ...]} then each tensor's bytes in that order, [begin, end) counted from the file's start, begin on a
//   multiple of 64; gaps are zero.
// Numbers are little-endian. The file ends with the last tensor. Every byte is covered by a check: a reader verifies
// all of them before it hands out any. Thread rule: a writer belongs to one thread; a CheckpointFile is immutable after
// construction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/shape.h"

namespace cleave {

// Writes a file of tensors whose data are all there, or come one after the other.
class CheckpointWriter {
  public:
    // Nothing is copied: data must stay as it is until write() returns.
    void add(std::string name, DType dtype, const Shape& shape, const void* data);
    // A tensor whose data are put() later.
    void declare(std::string name, DType dtype, const Shape& shape);

    // Writes to a temporary file, syncs, renames: whatever fails, an older file at `path` is still whole. Throws
    // UserError. As open(), put() of everything that was added, commit().
    void write(const std::filesystem::path& path, const Json& metadata);

    // The same in steps. The order of the file is that of add() and declare(), whatever the order of put().
    void open(const std::filesystem::path& path, const Json& metadata);
    void put(const std::string& name, std::span<const std::byte> bytes);
    void commit();

  private:
    struct Item {
        std::string name;
        DType dtype;
        Shape shape;
        std::span<const std::byte> bytes = {};
        std::string checksum = {};
        std::size_t begin = 0;  // in the file
        std::size_t size() const { return static_cast<std::size_t>(shape.elements() * size_of(dtype)); }
    };
    Item& new_item(std::string name, DType dtype, const Shape& shape);
    std::string header() const;
    void place_items(std::size_t start);

    std::vector<Item> items_;
    std::map<std::string, std::size_t> index_;
    Json metadata_;
    std::size_t header_length_ = 0;
    std::optional<AtomicFile> file_;
};

struct CheckpointTensor {
    std::string name;
    DType dtype;
    Shape shape;
    std::span<const std::byte> bytes;  // elements() x size_of(dtype), 64-byte aligned
};

class CheckpointFile {
  public:
    // Maps and verifies the file. Throws UserError: the file, and what is wrong in it.
    explicit CheckpointFile(std::filesystem::path path);

    const std::filesystem::path& path() const { return path_; }
    const Json& metadata() const { return metadata_; }
    // In the order of the file.
    const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
    const CheckpointTensor* find(std::string_view name) const;  // nullptr: not in the file
    // The tensor's bytes. Throws UserError where the file holds no such tensor, or another dtype or shape.
    std::span<const std::byte> bytes_of(std::string_view name, DType dtype, const Shape& shape) const {
        return expect(name, dtype, shape).bytes;
    }
    // Copies the whole tensor, or `count` elements from global index `first` on, to `destination`. Throws UserError
    // where the file holds no such tensor, or another dtype, shape or range than what is asked for.
    void read(std::string_view name, DType dtype, const Shape& shape, void* destination) const;
    void read_range(std::string_view name, DType dtype, const Shape& shape, std::int64_t first, std::int64_t count,
                    void* destination) const;

  private:
    const CheckpointTensor& expect(std::string_view name, DType dtype, const Shape& shape) const;

    std::filesystem::path path_;
    MappedFile file_;
    Json metadata_;
    std::vector<CheckpointTensor> tensors_;
    std::map<std::string, std::size_t, std::less<>> index_;
};

// Whether it begins as one.
bool is_checkpoint_file(const std::filesystem::path& path);

// The file `latest` in a folder names its newest whole checkpoint. It is written after the checkpoint is in place, so
// that a process that dies in between leaves the older, whole one named.
void mark_latest(const std::filesystem::path& checkpoint);
// The checkpoint that `latest` names; none where there is no such file. Throws UserError where it names none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

}  // namespace cleave

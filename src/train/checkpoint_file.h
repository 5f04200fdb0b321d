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

// Collects what a file shall hold, then writes it as a whole. Nothing is copied: data must stay as it is until write()
// returns.
class CheckpointWriter {
  public:
    void add(std::string name, DType dtype, const Shape& shape, const void* data);
    // Writes to a temporary file, syncs, renames: whatever fails, an older file at `path` is still whole. Throws
    // UserError.
    void write(const std::filesystem::path& path, const Json& metadata) const;

  private:
    struct Item {
        std::string name;
        DType dtype;
        Shape shape;
        std::span<const std::byte> bytes;
    };
    std::vector<Item> items_;
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

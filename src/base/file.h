// Files. Written whole or not at all, read with errors that name the file.
// Every failure is a UserError that names the path, what went wrong (the system's words) and, on a full disk, what to
// do. Thread rule: an object belongs to one thread at a time; different objects are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace cleave {

// An open file descriptor, closed in the destructor.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor() { reset(); }

    int get() const { return fd_; }
    bool is_open() const { return fd_ >= 0; }
    int release();
    void reset();

  private:
    int fd_ = -1;
};

// Replaces a file as a whole. What is written goes to a temporary file in the same directory; commit() syncs it,
// renames it over `path` and syncs the directory. Until then, and if anything fails, the old file stays as it was; the
// destructor removes the temporary file of what was not committed.
class AtomicFile {
  public:
    explicit AtomicFile(std::filesystem::path path);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    // At `offset` from the beginning; what lies between and is never written reads as zero.
    void write_at(std::size_t offset, std::span<const std::byte> bytes);
    void commit();

  private:
    std::filesystem::path path_;
    std::filesystem::path temporary_;
    FileDescriptor file_;
};

void write_file(const std::filesystem::path& path, std::string_view text);  // an AtomicFile in one call

// A file that grows line by line (metrics). Each append is one write of the system, seen at once by readers.
class AppendFile {
  public:
    enum class Mode : std::uint8_t { truncate, append };
    AppendFile(std::filesystem::path path, Mode mode);
    void append(std::string_view text);

  private:
    std::filesystem::path path_;
    FileDescriptor file_;
};

// The bytes of a file, mapped for reading. They must not be truncated by others while mapped (the system would raise
// SIGBUS): Cleave itself only replaces files by renaming, which leaves a mapping whole.
class MappedFile {
  public:
    explicit MappedFile(const std::filesystem::path& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    std::size_t size() const { return size_; }

  private:
    void unmap();
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 28;  // no file that a person or a tool writes has more
// The whole of a regular file. Throws UserError, before it waits or reads, for a pipe, a device, or a larger one.
std::string read_text_file(const std::filesystem::path& path, std::size_t most_bytes = kMostTextBytes);

}  // namespace cleave

#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, int error) {
    throw UserError("cannot {} '{}': {}", what, path.string(), std::generic_category().message(error));
}

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    throw UserError(
        "cannot write '{}': {}{}", path.string(), std::generic_category().message(error),
        full ? "; free some space (or raise the quota or file size limit), or choose another directory" : "");
}

// `named`: the path that a message speaks of, where it is another.
FileDescriptor open_file(std::string_view what, const fs::path& path, int flags, const fs::path* named = nullptr) {
    constexpr mode_t kReadableByAll = 0666;  // less the user's umask
    for (;;) {
        const int fd = ::open(path.c_str(), flags | O_CLOEXEC, kReadableByAll);
        if (fd >= 0) return FileDescriptor(fd);
        if (errno != EINTR) fail(what, named != nullptr ? *named : path, errno);
    }
}

FileDescriptor open_to_read(const fs::path& path, struct stat& status, int flags = 0) {
    FileDescriptor file = open_file("read", path, O_RDONLY | flags);
    if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
    if (S_ISDIR(status.st_mode)) throw UserError("cannot read '{}': it is a directory, not a file", path.string());
    return file;
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            fail_to_write(path, errno);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

// A disk may be full, or fail, only when the data reach it: sync reports what write could not know.
void sync(int fd, const fs::path& path) {
    if (::fsync(fd) != 0) fail_to_write(path, errno);
}

void sync_directory_of(const fs::path& path) {
    const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const FileDescriptor file = open_file("sync", directory, O_RDONLY | O_DIRECTORY);
    // Some file systems cannot sync a directory (EINVAL): they offer no more than the rename itself.
    if (::fsync(file.get()) != 0 && errno != EINVAL) fail("sync", directory, errno);
}

fs::path temporary_name(const fs::path& path) {
    static std::atomic<int> count{0};
    fs::path name = path;
    name += fmt::format(".{}-{}.tmp", ::getpid(), count++);
    return name;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = other.release();
    }
    return *this;
}

int FileDescriptor::release() {
    return std::exchange(fd_, -1);
}

void FileDescriptor::reset() {
    if (is_open()) ::close(release());
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
    if (fs::is_directory(path_)) throw UserError("cannot write '{}': it is a directory", path_.string());
    ::unlink(temporary_.c_str());  // of an earlier process with this number that was killed
    file_ = open_file("write", temporary_, O_WRONLY | O_CREAT | O_EXCL, &path_);
}

AtomicFile::~AtomicFile() {
    if (file_.is_open()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    write_all(file_.get(), bytes, path_);
}

void AtomicFile::write_at(std::size_t offset, std::span<const std::byte> bytes) {
    if (::lseek(file_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) fail_to_write(path_, errno);
    write_all(file_.get(), bytes, path_);
}

void AtomicFile::commit() {
    sync(file_.get(), path_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
    file_.reset();
    sync_directory_of(path_);
}

void write_file(const fs::path& path, std::string_view text) {
    AtomicFile file(path);
    file.write(text);
    file.commit();
}

AppendFile::AppendFile(fs::path path, Mode mode)
    : path_(std::move(path)),
      file_(open_file("write", path_, O_WRONLY | O_CREAT | O_APPEND | (mode == Mode::truncate ? O_TRUNC : 0))) {}

void AppendFile::append(std::string_view text) {
    write_all(file_.get(), std::as_bytes(std::span(text)), path_);
}

MappedFile::MappedFile(const fs::path& path) {
    struct stat status {};
    const FileDescriptor file = open_to_read(path, status, O_NONBLOCK);  // a pipe would wait for its writer
    if (!S_ISREG(status.st_mode)) throw UserError("cannot map '{}': it is not a regular file", path.string());
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;  // the system maps no empty range
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED) fail("map", path, errno);
    data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        unmap();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
    }
    return *this;
}

MappedFile::~MappedFile() {
    unmap();
}

void MappedFile::unmap() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_text_file(const fs::path& path, std::size_t most_bytes) {
    struct stat status {};
    const FileDescriptor file = open_to_read(path, status, O_NONBLOCK);  // a pipe would wait for its writer
    if (!S_ISREG(status.st_mode))
        throw UserError("cannot read '{}': it is a pipe or a device; accepted: a file on a disk", path.string());
    const auto check_size = [&](std::size_t size) {
        if (size > most_bytes)
            throw UserError("cannot read '{}': it has {} bytes; accepted: at most {}", path.string(), size, most_bytes);
    };
    check_size(static_cast<std::size_t>(status.st_size));
    std::string text;
    std::array<char, 65536> block{};
    for (;;) {
        const ssize_t got = ::read(file.get(), block.data(), block.size());
        if (got == 0) return text;
        if (got > 0)
            text.append(block.data(), static_cast<std::size_t>(got));
        else if (errno != EINTR)
            fail("read", path, errno);
        check_size(text.size());  // those of /proc say that they are empty
    }
}

}  // namespace cleave

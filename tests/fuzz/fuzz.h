// What fuzz targets share. A target hands any bytes to a parser: a UserError is the right answer to damaged ones; any
// other exception, a crash, a sanitizer's report or an allocation that the input does not pay for is a finding.
// Thread rule: one thread.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cleave::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

// A file in memory, for parsers that take a path.
class MemoryFile {
  public:
    explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
        CLEAVE_CHECK(fd_ >= 0 && ::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    }
    MemoryFile(const MemoryFile&) = delete;
    ~MemoryFile() { ::close(fd_); }
    std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  private:
    int fd_;
};

// Runs `parse`; a UserError is an answer.
template <class Parse>
void answers(Parse&& parse) {
    try {
        parse();
    } catch (const UserError& error) {
        CLEAVE_CHECK(!std::string_view(error.what()).empty());
    }
}

}  // namespace cleave::fuzz

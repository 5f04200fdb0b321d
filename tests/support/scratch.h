// What tests of files and of messages share: a folder that goes away, and the text of a UserError.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "base/error.h"

namespace cleave {

class ScratchFolder {
  public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "cleave-test-XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ~ScratchFolder() { std::filesystem::remove_all(path_); }

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

inline std::string read_all(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_all(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

// What the UserError says that `act` throws; empty where it throws none.
inline std::string user_error(const std::function<void()>& act) {
    try {
        act();
    } catch (const UserError& error) {
        return error.what();
    }
    return {};
}

}  // namespace cleave

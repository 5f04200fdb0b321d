// How much memory a run may still take.
// Thread rule: reads the system's files; may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace cleave {

struct AvailableMemory {
    std::int64_t bytes = 0;
    std::string limit;  // who says so, in words for a message
};

// The least of what the machine has left (MemAvailable of /proc/meminfo: without swap) and of what the control groups
// of this process leave it (their limit, less what is in use and is not cache). `root`: where proc/ and sys/ lie. Where
// nothing is known there is no limit.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

}  // namespace cleave

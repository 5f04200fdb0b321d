#include "base/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace cleave {
namespace {

namespace fs = std::filesystem;

// The number behind `name` in a file of lines "name number".
std::optional<std::int64_t> number_of(const fs::path& file, const std::string& name) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
        std::istringstream words(line);
        std::string word;
        std::int64_t number = 0;
        if (words >> word >> number && word == name) return number;
    }
    return std::nullopt;
}

// "max", as a file without a limit says, is none.
std::optional<std::int64_t> only_number(const fs::path& file) {
    std::ifstream stream(file);
    std::int64_t number = 0;
    if (stream >> number) return number;
    return std::nullopt;
}

// The names of the files of a version of control groups.
struct Version {
    const char* folder;  // below sys/fs/cgroup
    const char* limit;
    const char* used;
    const char* cache;  // in memory.stat: what the system takes back when it needs it
};
constexpr Version kVersions[] = {{"", "memory.max", "memory.current", "inactive_file"},
                                 {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};

void lower(AvailableMemory& least, std::int64_t bytes, const std::string& limit) {
    if (bytes >= least.bytes) return;
    least = {std::max<std::int64_t>(bytes, 0), limit};
}

// A group's limit holds for all groups below it, so every one up to the root counts. `path` as the process sees it; in
// a container the group itself often is the mount's root, and the path leads nowhere there.
void lower_by_groups(AvailableMemory& least, const fs::path& mount, std::string path, const Version& version) {
    for (bool root = false; !root; path = fs::path(path).parent_path().string()) {
        root = path.empty() || path == "/";
        const fs::path group = root ? mount : mount / path.substr(1);
        const auto limit = only_number(group / version.limit);
        const auto used = only_number(group / version.used);
        if (!limit || !used) continue;
        const std::int64_t cache = number_of(group / "memory.stat", version.cache).value_or(0);
        lower(least, *limit - (*used - cache), "the memory limit of its control group");
    }
}

}  // namespace

AvailableMemory available_memory(const fs::path& root) {
    AvailableMemory least{std::numeric_limits<std::int64_t>::max(), "nothing"};
    if (const auto kibibytes = number_of(root / "proc/meminfo", "MemAvailable:"))
        lower(least, *kibibytes * 1024, "MemAvailable of /proc/meminfo");
    // Lines of "number:controllers:path"; version 2 has no controllers.
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const auto first = line.find(':');
        const auto second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
        const bool unified = controllers == ",,";
        if (!unified && controllers.find(",memory,") == std::string::npos) continue;
        const Version& version = kVersions[unified ? 0 : 1];
        lower_by_groups(least, root / "sys/fs/cgroup" / version.folder, line.substr(second + 1), version);
    }
    return least;
}

}  // namespace cleave

// What memory is left, from files as the kernel writes them.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/scratch.h"

namespace cleave {
namespace {

class MemoryTest : public testing::Test {
  protected:
    void put(const std::string& file, const std::string& text) const {
        std::filesystem::create_directories((folder_ / file).parent_path());
        write_all(folder_ / file, text);
    }
    std::int64_t available() const { return available_memory(folder_.path()).bytes; }
    std::string limit() const { return available_memory(folder_.path()).limit; }

    ScratchFolder folder_;
};

TEST_F(MemoryTest, IsTheMachinesWhereNothingElseLimitsIt) {
    EXPECT_EQ(available(), std::numeric_limits<std::int64_t>::max());
    put("proc/meminfo", "MemTotal:       24684092 kB\nMemFree:        1000 kB\nMemAvailable:   3000 kB\n");
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/job/memory.current", "77\n");
    EXPECT_EQ(available(), 3000 * 1024);
    EXPECT_EQ(limit(), "MemAvailable of /proc/meminfo");
}

TEST_F(MemoryTest, IsWhatAnyControlGroupAboveLeaves) {
    put("proc/meminfo", "MemAvailable:   3000 kB\n");
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "2000000\n");
    put("sys/fs/cgroup/user/job/memory.current", "500000\n");
    EXPECT_EQ(available(), 1500000);
    EXPECT_EQ(limit(), "the memory limit of its control group");
    put("sys/fs/cgroup/user/job/memory.stat", "anon 1\ninactive_file 100000\nactive_file 5\n");
    EXPECT_EQ(available(), 1600000);
    put("sys/fs/cgroup/user/memory.max", "900000\n");
    put("sys/fs/cgroup/user/memory.current", "1000000\n");
    EXPECT_EQ(available(), 0);
}

TEST_F(MemoryTest, KnowsBothVersionsAndAContainersView) {
    put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");  // the group itself is the mount's root
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "300000\n");
    put("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 1000\n");
    EXPECT_EQ(available(), 701000);
}

TEST(AvailableMemory, OfThisMachineIsANumberOfBytes) {
    EXPECT_GT(available_memory().bytes, 1 << 20);
    EXPECT_LT(available_memory().bytes, std::int64_t{1} << 50);
}

}  // namespace
}  // namespace cleave

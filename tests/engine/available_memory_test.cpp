// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/allocation/available_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/engine/budget/step_limit.h"

namespace reprise::engine_internal::available_memory_test {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kKiB = std::int64_t{1} << 10;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// A file system of text files.
class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest() {
    std::string name = ::testing::TempDir() + "available_memory_XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~AvailableMemoryTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  void write_unified(const std::string& group_of_process) const {
    write("/proc/self/mountinfo",
          "22 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n"
          "31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    write("/proc/self/cgroup", "0::" + group_of_process + "\n");
  }

  // Returns the bytes under that limit.
  std::optional<std::int64_t> under(const std::string& limit, const ProcessLimits& limits = {},
                                    std::int64_t held_bytes = 0) const {
    for (const AvailableMemory& memory : SystemMemory(root_).available(limits, held_bytes)) {
      if (memory.limit == limit) {
        return memory.bytes;
      }
    }
    return std::nullopt;
  }

  std::string root_;
};

TEST_F(AvailableMemoryTest, NoFilesNoLimits) {
  EXPECT_THAT(SystemMemory(root_).available({}, 0), IsEmpty());
}

TEST_F(AvailableMemoryTest, TheMachine) {
  write("/proc/meminfo",
        "MemTotal:       24684092 kB\nMemFree:        13659896 kB\nMemAvailable:   22750036 kB\n");
  const std::vector<AvailableMemory> found = SystemMemory(root_).available({}, 0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].limit, "MemAvailable");
  EXPECT_EQ(found[0].bytes, 22750036 * kKiB);
  EXPECT_EQ(found[0].total_bytes, 24684092 * kKiB);
  EXPECT_EQ(under("MemAvailable", {}, kMiB), 22750036 * kKiB);
}

TEST_F(AvailableMemoryTest, LimitsOfTheProcess) {
  write("/proc/self/statm", "1000 443 415 5 0 123 0\n");
  const std::int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const ProcessLimits limits{.address_space_bytes = kGiB, .data_bytes = 2 * kGiB};
  EXPECT_EQ(under("RLIMIT_AS", limits), kGiB - 1000 * page_bytes);
  EXPECT_EQ(under("RLIMIT_DATA", limits), 2 * kGiB - 123 * page_bytes);
  EXPECT_EQ(under("RLIMIT_AS", limits, kMiB), kGiB - 1000 * page_bytes + kMiB);
  EXPECT_EQ(under("RLIMIT_AS", {.data_bytes = kGiB}), std::nullopt);
  EXPECT_EQ(under("RLIMIT_DATA", {.address_space_bytes = kGiB}), std::nullopt);
}

TEST_F(AvailableMemoryTest, AControlGroupAndThoseAroundIt) {
  write_unified("/job/step");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/step/memory.high", "314572800\n");
  write("/sys/fs/cgroup/job/step/memory.current", "209715200\n");
  write("/sys/fs/cgroup/job/step/memory.stat", "anon 1\nfile 73400320\ninactive_file 52428800\n");
  write("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/job/memory.current", "1063256064\n");
  write("/sys/fs/cgroup/job/memory.stat", "anon 1\n");
  EXPECT_EQ(under("memory.high of the control group /job/step"), 150 * kMiB);
  EXPECT_EQ(under("memory.max of the control group /job"), 10 * kMiB);
  EXPECT_EQ(SystemMemory(root_).available({}, 0).size(), 2U);
}

TEST_F(AvailableMemoryTest, AControlGroupThatIsARootInItsContainer) {
  for (const std::string group : {"/", "/../../others"}) {
    write_unified(group);
    write("/sys/fs/cgroup/memory.max", "1073741824\n");
    write("/sys/fs/cgroup/memory.current", "1048576\n");
    write("/sys/fs/cgroup/memory.stat", "inactive_file 0\n");
    EXPECT_EQ(under("memory.max of the control group /"), kGiB - kMiB) << group;
  }
}

TEST_F(AvailableMemoryTest, ControlGroupsOfVersion1) {
  write("/proc/self/mountinfo",
        "32 31 0:29 /docker/a1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 /docker/a1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/a1/b\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "536870912\n");
  write("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "104857600\n");
  write("/sys/fs/cgroup/memory/b/memory.stat", "inactive_file 7\ntotal_inactive_file 10485760\n");
  EXPECT_EQ(under("memory.limit_in_bytes of the control group /b"), (512 - 100 + 10) * kMiB);
  EXPECT_EQ(SystemMemory(root_).available({}, 0).size(), 1U);
}

TEST_F(AvailableMemoryTest, ThisMachineTells) {
  const std::vector<AvailableMemory> found =
      SystemMemory().available(ProcessLimits::current(), bytes_held_by_malloc());
  ASSERT_THAT(found, Not(IsEmpty()));
  for (const AvailableMemory& memory : found) {
    EXPECT_GT(memory.bytes, 0) << memory.limit;
    EXPECT_GT(memory.total_bytes, 0) << memory.limit;
  }
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm").ignore(64, ' ') >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST_F(AvailableMemoryTest, MallocHoldsWhatWasFreedAndGivesItsPagesBack) {
  constexpr int kBlocks = 4000;
  constexpr std::size_t kBytes = 10000;  // too few for a mapping of their own
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBytes));  // written
  }
  const std::int64_t before = bytes_held_by_malloc();
  if (before == 0) {
    GTEST_SKIP() << "this malloc() does not tell";
  }
  const auto last = std::make_unique<char[]>(kBytes);  // keeps those below
  blocks.clear();
  constexpr auto kHalf = static_cast<std::int64_t>(kBlocks * kBytes / 2);
  EXPECT_GE(bytes_held_by_malloc() - before, kHalf);
  const std::int64_t resident = resident_bytes();
  release_held_pages();
  EXPECT_GE(resident - resident_bytes(), kHalf);
}

TEST(StepLimitTest, TheLeastOfWhatTheLimitsLeave) {
  const std::vector<AvailableMemory> limits = {
      {.bytes = 20 * kGiB, .total_bytes = 32 * kGiB, .limit = "a"},
      {.bytes = 3 * kGiB, .total_bytes = 4 * kGiB, .limit = "b"}};
  const StepLimit all = share_of({}, limits, kGiB);
  EXPECT_EQ(all.source, "b");
  EXPECT_EQ(all.offered_bytes, 4 * kGiB);
  EXPECT_EQ(all.reserve_bytes, 128 * kMiB);
  EXPECT_EQ(all.bytes, 4 * kGiB - 128 * kMiB);
  const StepLimit half = share_of({.fraction = 0.5, .reserve_bytes = 2 * kGiB}, limits, kGiB);
  EXPECT_EQ(half.bytes, kGiB);
  EXPECT_TRUE(half.is_share());
  EXPECT_FALSE(StepLimit{}.is_share());
}

TEST(StepLimitTest, TheReserveIsAPartOfTheLimit) {
  const auto reserve = [](std::int64_t total) {
    return default_reserve({.bytes = 0, .total_bytes = total, .limit = "a"});
  };
  EXPECT_EQ(reserve(256 * kMiB), 64 * kMiB);
  EXPECT_EQ(reserve(16 * kGiB), 512 * kMiB);
  EXPECT_EQ(reserve(1000 * kGiB), kGiB);
  EXPECT_EQ(
      default_reserve({.bytes = 0, .total_bytes = kGiB, .limit = "a", .on = LimitOn::kTensors}), 0);
}

TEST(StepLimitTest, IsNeverNegative) {
  const StepLimit limit =
      share_of({}, {{.bytes = -kGiB, .total_bytes = kGiB, .limit = "a"}}, 100 * kMiB);
  EXPECT_EQ(limit.bytes, 0);
}

}  // namespace
}  // namespace reprise::engine_internal::available_memory_test

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/cpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace reprise::cpu_memory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::int64_t current() { return cpu_memory().current_bytes; }

class CpuMemoryTest : public ::testing::Test {
 protected:
  void TearDown() override { set_cpu_memory_limit(std::nullopt); }
};

TEST_F(CpuMemoryTest, CountsTheBytesThatTensorsAskFor) {
  ASSERT_TRUE(is_cpu_memory_counter_installed());
  const std::int64_t start = current();
  at::Tensor a = at::empty({3, 5}, at::kFloat);
  EXPECT_EQ(current() - start, 60);
  at::Tensor b = a.clone();
  EXPECT_EQ(current() - start, 120);
  at::Tensor view = b.slice(0, 1);
  EXPECT_EQ(current() - start, 120);
  b = at::Tensor();
  EXPECT_EQ(current() - start, 120) << "the view keeps the block";
  view = at::Tensor();
  EXPECT_EQ(current() - start, 60);
  a = at::Tensor();
  EXPECT_EQ(current(), start);
}

TEST_F(CpuMemoryTest, FollowsResizing) {
  const std::int64_t start = current();
  at::Tensor a = at::empty({10}, at::kByte);
  a.fill_(7);
  a.resize_({1000});
  EXPECT_EQ(current() - start, 1000);
  EXPECT_EQ(a[9].item<int>(), 7) << "resizing keeps the old elements";
  a.resize_({1});
  EXPECT_EQ(current() - start, 1000) << "shrinking keeps the block";
}

TEST_F(CpuMemoryTest, EmptyTensorsTakeNothing) {
  const CpuMemory start = cpu_memory();
  const at::Tensor a = at::empty({0});
  const at::Tensor b = at::empty({4, 0, 3}).clone();
  EXPECT_EQ(current(), start.current_bytes);
  EXPECT_EQ(cpu_memory().allocations, start.allocations);
}

TEST_F(CpuMemoryTest, CountsAllocations) {
  const std::int64_t start = cpu_memory().allocations;
  for (int i = 0; i < 5; ++i) {
    at::empty({8});
  }
  EXPECT_EQ(cpu_memory().allocations - start, 5);
}

TEST_F(CpuMemoryTest, FreeInAnotherThreadIsSeen) {
  const std::int64_t start = current();
  at::Tensor a = at::empty({100}, at::kByte);
  std::thread([moved = std::move(a)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(current(), start);
}

TEST_F(CpuMemoryTest, AllocationInAnotherThreadIsSeen) {
  const std::int64_t start = current();
  at::Tensor a;
  std::thread([&] { a = at::empty({100}, at::kByte); }).join();
  EXPECT_EQ(current() - start, 100);
}

TEST_F(CpuMemoryTest, PeakIsTheHighestSinceTheReset) {
  reset_peak_cpu_memory();
  const std::int64_t start = current();
  EXPECT_EQ(cpu_memory().peak_bytes, start);
  {
    const at::Tensor a = at::empty({300}, at::kByte);
    const at::Tensor b = at::empty({200}, at::kByte);
  }
  at::empty({400}, at::kByte);
  EXPECT_EQ(current(), start);
  EXPECT_EQ(cpu_memory().peak_bytes - start, 500);
  const at::Tensor held = at::empty({10}, at::kByte);
  reset_peak_cpu_memory();
  EXPECT_EQ(cpu_memory().peak_bytes - start, 10);
}

TEST_F(CpuMemoryTest, BlocksAreAligned) {
  for (const std::int64_t bytes : {1, 63, 64, 65, 4096, 1 << 22}) {
    const at::Tensor a = at::empty({bytes}, at::kByte);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.const_data_ptr()) % 64, 0U) << bytes;
  }
}

TEST_F(CpuMemoryTest, RawAllocationsWork) {
  const std::int64_t start = current();
  auto* allocator = c10::GetAllocator(c10::kCPU);
  void* block = allocator->raw_allocate(48);
  EXPECT_EQ(current() - start, 48);
  allocator->raw_deallocate(block);
  EXPECT_EQ(current(), start);
}

TEST_F(CpuMemoryTest, AllocatorClonesWork) {
  const std::int64_t start = current();
  {
    const at::Tensor a = at::arange(16, at::kByte);
    const at::DataPtr copy = c10::GetAllocator(c10::kCPU)->clone(a.const_data_ptr(), a.nbytes());
    EXPECT_EQ(current() - start, 32);
    EXPECT_EQ(static_cast<const std::uint8_t*>(copy.get())[15], 15);
  }
  EXPECT_EQ(current(), start);
}

TEST_F(CpuMemoryTest, AllocationAboveTheLimitThrowsAndChangesNothing) {
  const at::Tensor held = at::empty({1000}, at::kByte);
  const CpuMemory before = cpu_memory();
  const std::int64_t limit = before.current_bytes + 500;
  set_cpu_memory_limit(limit);
  try {
    at::empty({501}, at::kByte);
    FAIL() << "the limit was not kept";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_THAT(message, HasSubstr("501 bytes were asked for"));
    EXPECT_THAT(message, HasSubstr(std::to_string(before.current_bytes) + " bytes are in use"));
    EXPECT_THAT(message, HasSubstr("the limit is " + std::to_string(limit) + " bytes"));
    EXPECT_THAT(message, HasSubstr("set_cpu_memory_limit"));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(current(), before.current_bytes);
  EXPECT_EQ(cpu_memory().peak_bytes, before.peak_bytes);
  const at::Tensor fits = at::empty({500}, at::kByte);
  EXPECT_EQ(current(), limit);
}

TEST_F(CpuMemoryTest, LimitCanBeLifted) {
  set_cpu_memory_limit(current());
  EXPECT_THAT([&] { at::empty({1}, at::kByte); },
              ::testing::ThrowsMessage<c10::OutOfMemoryError>(
                  HasSubstr("the limit on CPU tensors is reached: 1 bytes")));
  set_cpu_memory_limit(std::nullopt);
  EXPECT_NO_THROW(at::empty({1 << 20}, at::kByte));
}

TEST_F(CpuMemoryTest, NegativeLimitIsRefused) {
  try {
    set_cpu_memory_limit(-5);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("limit_bytes is -5"));
  }
}

TEST_F(CpuMemoryTest, LimitIsExactForManyThreads) {
  const std::int64_t start = current();
  constexpr int kThreads = 4;
  constexpr int kFit = 37;
  set_cpu_memory_limit(start + kFit * 64);
  std::atomic<int> refused{0};
  std::vector<std::vector<at::Tensor>> held(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        try {
          held.at(t).push_back(at::empty({64}, at::kByte));
        } catch (const c10::OutOfMemoryError&) {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(refused, kThreads * 100 - kFit);
  EXPECT_EQ(current() - start, kFit * 64);
  held.clear();
  EXPECT_EQ(current(), start);
}

TEST_F(CpuMemoryTest, ImpossibleSizesAreRefused) {
  const std::int64_t start = current();
  auto* allocator = c10::GetAllocator(c10::kCPU);
  EXPECT_THAT([&] { allocator->allocate(~std::size_t{0}); },
              ::testing::ThrowsMessage<c10::OutOfMemoryError>(HasSubstr("which no machine has")));
  EXPECT_EQ(current(), start);
}

TEST_F(CpuMemoryTest, AllocationThatTheSystemRefusesIsNotCounted) {
  const CpuMemory before = cpu_memory();
  auto* allocator = c10::GetAllocator(c10::kCPU);
  EXPECT_THAT([&] { allocator->allocate(std::size_t{1} << 60); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("can't allocate memory")));
  EXPECT_EQ(current(), before.current_bytes);
  EXPECT_EQ(cpu_memory().allocations, before.allocations);
}

TEST_F(CpuMemoryTest, InstallingAgainDoesNothing) {
  auto* allocator = c10::GetAllocator(c10::kCPU);
  install_cpu_memory_counter();
  EXPECT_EQ(c10::GetAllocator(c10::kCPU), allocator);
}

// A profiler's view of one thread.
struct Reports : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, std::int64_t size, std::size_t total, std::size_t,
                         c10::Device device) override {
    EXPECT_TRUE(device.is_cpu());
    sizes.push_back(size);
    last_total = static_cast<std::int64_t>(total);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::vector<std::int64_t> sizes;
  std::int64_t last_total = 0;
};

TEST_F(CpuMemoryTest, ProfilerSeesAllocationsAndFrees) {
  const std::int64_t start = current();
  const auto reports = std::make_shared<Reports>();
  {
    const c10::DebugInfoGuard profiling(c10::DebugInfoKind::PROFILER_STATE, reports);
    at::empty({24}, at::kByte);
  }
  EXPECT_EQ(reports->sizes, (std::vector<std::int64_t>{24, -24}));
  EXPECT_EQ(reports->last_total, start);
}

}  // namespace
}  // namespace reprise::cpu_memory_test

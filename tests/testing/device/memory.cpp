// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/device/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/testing/device/guard.h"
#include "tests/testing/device/streams.h"

namespace reprise::testing {
namespace {

constexpr int kPoison = 0xA5;

std::atomic<std::int64_t> g_live{0};
std::array<std::atomic<std::int64_t>, kDeviceCount> g_live_on{};
std::atomic<std::int64_t> g_peak{0};
std::atomic<std::int64_t> g_pinned{0};
std::atomic<std::int64_t> g_most_pinned{std::numeric_limits<std::int64_t>::max()};
std::atomic<std::int64_t> g_allocations{0};
std::array<std::atomic<bool>, kDeviceCount> g_awake{};

void count(std::int64_t bytes) {
  const std::int64_t now = g_live.fetch_add(bytes) + bytes;
  std::int64_t peak = g_peak.load();
  while (now > peak && !g_peak.compare_exchange_weak(peak, now)) {
  }
}

// As LibTorch's own allocators do, when the bytes have been counted.
void report(void* data, std::int64_t bytes, c10::DeviceIndex device) {
  const std::int64_t total =
      g_live_on.at(static_cast<std::size_t>(device)).fetch_add(bytes) + bytes;
  if (c10::memoryProfilingEnabled()) {
    c10::reportMemoryUsageToProfiler(data, bytes, static_cast<std::size_t>(total), 0,
                                     c10::Device(c10::DeviceType::PrivateUse1, device));
  }
}

struct Block {
  void* data;
  std::size_t bytes;
  c10::DeviceIndex device;
  c10::StreamId stream;
  std::vector<c10::StreamId> users;  // other streams
};

// Blocks that were freed, by device, stream and size.
class Cache {
 public:
  Block* take(c10::DeviceIndex device, c10::StreamId stream, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& blocks = blocks_[{device, stream, bytes}];
    if (blocks.empty()) {
      return new Block{std::malloc(bytes), bytes, device, stream, {}};
    }
    Block* const block = blocks.back();
    blocks.pop_back();
    return block;
  }

  void give_back(Block* block) {
    for (const c10::StreamId user : std::exchange(block->users, {})) {
      enqueue_wait(block->device, block->stream, record(block->device, user));
    }
    enqueue(block->device, block->stream, Work::kFree, 0,
            [data = block->data, bytes = block->bytes] { std::memset(data, kPoison, bytes); });
    const std::lock_guard lock(mutex_);
    blocks_[{block->device, block->stream, block->bytes}].push_back(block);
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<c10::DeviceIndex, c10::StreamId, std::size_t>, std::vector<Block*>> blocks_;
};

Cache& cache() {
  static auto& cache = *new Cache;
  return cache;
}

void free_block(void* context) {
  auto* const block = static_cast<Block*>(context);
  const auto bytes = static_cast<std::int64_t>(block->bytes);
  g_live -= bytes;
  report(block->data, -bytes, block->device);
  cache().give_back(block);
}

c10::DataPtr allocate_block(std::size_t bytes) {
  const c10::DeviceIndex index = current_device();
  wake_device(index);
  const c10::Device device(c10::DeviceType::PrivateUse1, index);
  if (bytes == 0) {
    return {nullptr, device};
  }
  Block* const block = cache().take(index, current_stream(index), bytes);
  count(static_cast<std::int64_t>(bytes));
  ++g_allocations;
  report(block->data, static_cast<std::int64_t>(bytes), index);
  return {block->data, block, &free_block, device};
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  wait_for_device(current_device());
  std::memcpy(to, from, bytes);
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override { return allocate_block(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    copy_bytes(to, from, bytes);
  }
};

// A class of its own: what is overridden from LibTorch 2.10 on cannot be marked so.
class SizedAllocator : public c10::DeviceAllocator {
 public:
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) {
    const std::int64_t free = kDeviceBytes - live_device_bytes_on(device) - kCachedBytes;
    return {static_cast<std::size_t>(free), static_cast<std::size_t>(kDeviceBytes)};
  }
};

// The same memory.
class AllocatorWithStatistics final : public SizedAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override { return allocate_block(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    copy_bytes(to, from, bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    record_use(data, stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats statistics;
    const std::int64_t live = live_device_bytes_on(device);
    statistics.allocated_bytes[0].current = live;
    statistics.active_bytes[0].current = live;
    statistics.reserved_bytes[0].current = live + kCachedBytes;
    statistics.inactive_split_bytes[0].current = kSplitBytes;
    return statistics;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
};

struct PinnedBlocks {
  std::mutex mutex;
  std::map<const void*, std::size_t> bytes;
};

PinnedBlocks& pinned_blocks() {
  static auto& blocks = *new PinnedBlocks;
  return blocks;
}

void free_pinned(void* data) {
  PinnedBlocks& blocks = pinned_blocks();
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(blocks.mutex);
    bytes = blocks.bytes.extract(data).mapped();
  }
  g_pinned -= static_cast<std::int64_t>(bytes);
  std::memset(data, kPoison, bytes);
  std::free(data);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, c10::Device(c10::kCPU)};
    }
    TORCH_CHECK(g_pinned + static_cast<std::int64_t>(bytes) <= g_most_pinned,
                "out of page-locked memory");
    void* const data = std::malloc(bytes);
    PinnedBlocks& blocks = pinned_blocks();
    const std::lock_guard lock(blocks.mutex);
    blocks.bytes[data] = bytes;
    g_pinned += static_cast<std::int64_t>(bytes);
    return {data, data, &free_pinned, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

c10::Allocator* device_allocator() {
  static auto* const allocator = new DeviceAllocator;
  return allocator;
}

DeviceStatisticsGuard::DeviceStatisticsGuard() {
  static auto* const allocator = new AllocatorWithStatistics;
  c10::SetAllocator(c10::DeviceType::PrivateUse1, allocator);
}
DeviceStatisticsGuard::~DeviceStatisticsGuard() {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, device_allocator());
}

void record_use(const c10::DataPtr& data, c10::StreamId stream) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (data.get_deleter() == &free_block && data.get_context() != nullptr) {
    static_cast<Block*>(data.get_context())->users.push_back(stream);
  }
}

c10::Allocator* pinned_allocator() {
  static auto* const allocator = new PinnedAllocator;
  return allocator;
}

bool is_pinned(const void* data) {
  PinnedBlocks& blocks = pinned_blocks();
  const std::lock_guard lock(blocks.mutex);
  const auto after = blocks.bytes.upper_bound(data);
  if (after == blocks.bytes.begin()) {
    return false;
  }
  const auto& [start, bytes] = *std::prev(after);
  return static_cast<const char*>(data) < static_cast<const char*>(start) + bytes;
}

std::int64_t live_device_bytes() { return g_live; }
std::int64_t live_device_bytes_on(c10::DeviceIndex device) {
  return g_live_on.at(static_cast<std::size_t>(device));
}
std::int64_t peak_device_bytes() { return g_peak; }
void reset_peak_device_bytes() { g_peak = g_live.load(); }
std::int64_t live_pinned_bytes() { return g_pinned; }

void limit_pinned_bytes(std::int64_t most) { g_most_pinned = most; }
std::int64_t device_allocations() { return g_allocations; }

bool is_device_awake(c10::DeviceIndex device) {
  return g_awake.at(static_cast<std::size_t>(device));
}
void wake_device(c10::DeviceIndex device) { g_awake.at(static_cast<std::size_t>(device)) = true; }

}  // namespace reprise::testing

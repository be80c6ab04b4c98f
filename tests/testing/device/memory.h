// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory of the test device, and pinned memory of its host. What is freed is overwritten: device
// memory when the stream that it was allocated on gets there, pinned memory at once.
#ifndef REPRISE_TESTS_TESTING_DEVICE_MEMORY_H_
#define REPRISE_TESTS_TESTING_DEVICE_MEMORY_H_

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>

namespace reprise::testing {

// Gives memory of the calling thread's current device and stream, as caching allocators of
// accelerators do: a block that is freed may be given out again on that stream at once. Reports it
// to LibTorch's profiler.
c10::Allocator* device_allocator();

// While alive, the allocator that LibTorch knows of has statistics, as only some accelerators' do.
// From LibTorch 2.10 on it tells how much memory the device has: 1 GiB, of which some is its cache.
inline constexpr std::int64_t kDeviceBytes = std::int64_t{1} << 30;
inline constexpr std::int64_t kCachedBytes = std::int64_t{48} << 20;
inline constexpr std::int64_t kSplitBytes = std::int64_t{16}
                                            << 20;  // of these, beside others in use
class [[nodiscard]] DeviceStatisticsGuard {
 public:
  DeviceStatisticsGuard();
  ~DeviceStatisticsGuard();
  DeviceStatisticsGuard(const DeviceStatisticsGuard&) = delete;
  DeviceStatisticsGuard& operator=(const DeviceStatisticsGuard&) = delete;
};

// The stream uses memory of the device: when that is freed, what overwrites it waits for what is
// queued there then.
void record_use(const c10::DataPtr& data, c10::StreamId stream);

c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

// Of tensors, over all devices.
std::int64_t live_device_bytes();
std::int64_t peak_device_bytes();
void reset_peak_device_bytes();
std::int64_t live_device_bytes_on(c10::DeviceIndex device);
// How often memory of any device has been asked for.
std::int64_t device_allocations();
std::int64_t live_pinned_bytes();
// More than so many throw c10::Error.
void limit_pinned_bytes(std::int64_t most);

// True once memory, or a stream, of the device has been used.
bool is_device_awake(c10::DeviceIndex device = 0);
void wake_device(c10::DeviceIndex device);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_MEMORY_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Streams of the test device: a worker thread each, which runs what is queued in order, and late if
// asked to. So what a missing event would allow happens, on a machine without an accelerator.
#ifndef REPRISE_TESTS_TESTING_DEVICE_STREAMS_H_
#define REPRISE_TESTS_TESTING_DEVICE_STREAMS_H_

#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace reprise::testing {

// What a queued task is, for its delay.
enum class Work { kKernel, kCopyOut, kCopyIn };

// Before each task its stream sleeps for so long.
struct Delays {
  std::chrono::microseconds kernel{0};
  std::chrono::microseconds copy_out{0};  // device to host
  std::chrono::microseconds copy_in{0};   // host to device
  double copy_bytes_per_microsecond = 0;  // 0: copies of any size take no time but that
};

// While alive. One at a time; waits for all streams when it is made and when it ends.
class [[nodiscard]] DelayGuard {
 public:
  explicit DelayGuard(const Delays& delays);
  ~DelayGuard();
  DelayGuard(const DelayGuard&) = delete;
  DelayGuard& operator=(const DelayGuard&) = delete;
};

// What has been queued on a stream up to a moment.
class Milestone;

constexpr c10::DeviceIndex kDeviceCount = 2;

// Of this thread.
c10::StreamId current_stream(c10::DeviceIndex device);
c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId stream);

// Another one of a few, never the default stream, which is 0.
c10::StreamId stream_from_pool(c10::DeviceIndex device);

// `task` runs when all that was queued before it has run. What it throws is thrown by the next
// wait.
void enqueue(c10::DeviceIndex device, c10::StreamId stream, Work work, std::int64_t bytes,
             std::function<void()> task);

std::shared_ptr<Milestone> record(c10::DeviceIndex device, c10::StreamId stream);
bool is_reached(const Milestone& milestone);
void wait(Milestone& milestone);
// What is queued on the stream from now on waits for the milestone.
void enqueue_wait(c10::DeviceIndex device, c10::StreamId stream,
                  std::shared_ptr<Milestone> milestone);

void wait_for_stream(c10::DeviceIndex device, c10::StreamId stream);
void wait_for_device(c10::DeviceIndex device);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_STREAMS_H_

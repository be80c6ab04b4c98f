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
#include <vector>

namespace reprise::testing {

// The kind of a queued task, for its delay. kFree: overwriting freed memory.
enum class Work { kKernel, kCopyOut, kCopyIn, kFree };

// Before each task its stream sleeps for so long.
struct Delays {
  std::chrono::microseconds kernel{0};
  std::chrono::microseconds copy_out{0};  // device to host
  std::chrono::microseconds copy_in{0};   // host to device
  double copy_bytes_per_microsecond = 0;  // 0: copies of any size take no time but that
  bool free_at_once = false;              // else it takes as long as a kernel
};

// While alive. One at a time; waits for all streams when it is made and when it ends.
class [[nodiscard]] DelayGuard {
 public:
  explicit DelayGuard(const Delays& delays);
  ~DelayGuard();
  DelayGuard(const DelayGuard&) = delete;
  DelayGuard& operator=(const DelayGuard&) = delete;
};

// When a task ran.
struct TaskSpan {
  c10::DeviceIndex device;
  c10::StreamId stream;
  Work work;
  std::chrono::steady_clock::time_point begin, end;
};

// While alive, notes when tasks run. One at a time.
class [[nodiscard]] TraceGuard {
 public:
  TraceGuard();
  ~TraceGuard();
  TraceGuard(const TraceGuard&) = delete;
  TraceGuard& operator=(const TraceGuard&) = delete;

  // In the order of their ends; waits for all streams.
  [[nodiscard]] static std::vector<TaskSpan> take_spans();
};

// The work queued on a stream up to a moment.
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
// Both must have been reached.
std::chrono::nanoseconds time_between(const Milestone& first, const Milestone& second);
void wait(Milestone& milestone);
// Work queued on the stream from now on waits for the milestone.
void enqueue_wait(c10::DeviceIndex device, c10::StreamId stream,
                  std::shared_ptr<Milestone> milestone);

void wait_for_stream(c10::DeviceIndex device, c10::StreamId stream);
void wait_for_device(c10::DeviceIndex device);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEVICE_STREAMS_H_

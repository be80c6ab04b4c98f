// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/device/streams.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/testing/device/memory.h"

namespace reprise::testing {

class Milestone {
 public:
  void reach() {
    {
      const std::lock_guard lock(mutex_);
      reached_ = true;
      time_ = std::chrono::steady_clock::now();
    }
    changed_.notify_all();
  }
  std::chrono::steady_clock::time_point time() const {
    const std::lock_guard lock(mutex_);
    return time_;
  }
  bool is_reached() const {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

namespace {

constexpr int kPoolStreams = 8;

std::mutex g_delays_mutex;
Delays g_delays;

std::mutex g_trace_mutex;
bool g_is_traced = false;
std::vector<TaskSpan> g_spans;

void note(const TaskSpan& span) {
  const std::lock_guard lock(g_trace_mutex);
  if (g_is_traced && span.work != Work::kFree) {
    g_spans.push_back(span);
  }
}

std::chrono::microseconds delay_of(Work work, std::int64_t bytes) {
  const std::lock_guard lock(g_delays_mutex);
  if (work == Work::kFree && g_delays.free_at_once) {
    return std::chrono::microseconds(0);
  }
  if (work == Work::kKernel || work == Work::kFree) {
    return g_delays.kernel;
  }
  const auto latency = work == Work::kCopyOut ? g_delays.copy_out : g_delays.copy_in;
  const double rate = g_delays.copy_bytes_per_microsecond;
  const auto transfer = rate > 0 ? static_cast<std::int64_t>(static_cast<double>(bytes) / rate) : 0;
  return latency + std::chrono::microseconds(transfer);
}

// Lives as long as the process, as its worker does.
class Stream {
 public:
  Stream() {
    std::thread([this] { work(); }).detach();
  }

  void enqueue(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  void wait() {
    const auto milestone = std::make_shared<Milestone>();
    enqueue([milestone] { milestone->reach(); });
    milestone->wait();
    const std::lock_guard lock(mutex_);
    if (error_) {
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

 private:
  [[noreturn]] void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      try {
        task();
      } catch (...) {
        const std::lock_guard relock(mutex_);
        error_ = std::current_exception();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::exception_ptr error_;
};

class Device {
 public:
  Stream& stream(c10::StreamId id) {
    const std::lock_guard lock(mutex_);
    auto& stream = streams_.at(static_cast<std::size_t>(id));
    if (stream == nullptr) {
      stream = new Stream;  // its worker may run until the process ends
    }
    return *stream;
  }

  c10::StreamId next_of_pool() {
    const std::lock_guard lock(mutex_);
    next_ = next_ % kPoolStreams + 1;
    return next_;
  }

  void wait() {
    for (c10::StreamId id = 0; id <= kPoolStreams; ++id) {
      if (is_used(id)) {
        stream(id).wait();
      }
    }
  }

 private:
  bool is_used(c10::StreamId id) {
    const std::lock_guard lock(mutex_);
    return streams_.at(static_cast<std::size_t>(id)) != nullptr;
  }

  std::mutex mutex_;
  std::array<Stream*, kPoolStreams + 1> streams_ = {};
  c10::StreamId next_ = 0;
};

Device& device(c10::DeviceIndex index) {
  static auto& devices = *new std::array<Device, kDeviceCount>;
  return devices.at(static_cast<std::size_t>(index));
}

thread_local std::array<c10::StreamId, kDeviceCount> streams_of_thread = {};

void set_delays(const Delays& delays) {
  for (c10::DeviceIndex index = 0; index < kDeviceCount; ++index) {
    wait_for_device(index);
  }
  const std::lock_guard lock(g_delays_mutex);
  g_delays = delays;
}

}  // namespace

DelayGuard::DelayGuard(const Delays& delays) { set_delays(delays); }
DelayGuard::~DelayGuard() { set_delays({}); }

TraceGuard::TraceGuard() {
  const std::lock_guard lock(g_trace_mutex);
  g_is_traced = true;
}

TraceGuard::~TraceGuard() {
  const std::lock_guard lock(g_trace_mutex);
  g_is_traced = false;
  g_spans.clear();
}

std::vector<TaskSpan> TraceGuard::take_spans() {
  for (c10::DeviceIndex index = 0; index < kDeviceCount; ++index) {
    wait_for_device(index);
  }
  const std::lock_guard lock(g_trace_mutex);
  return std::exchange(g_spans, {});
}

c10::StreamId current_stream(c10::DeviceIndex device) {
  return streams_of_thread.at(static_cast<std::size_t>(device));
}

c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId stream) {
  return std::exchange(streams_of_thread.at(static_cast<std::size_t>(device)), stream);
}

c10::StreamId stream_from_pool(c10::DeviceIndex index) { return device(index).next_of_pool(); }

void enqueue(c10::DeviceIndex index, c10::StreamId stream, Work work, std::int64_t bytes,
             std::function<void()> task) {
  const auto delay = delay_of(work, bytes);
  wake_device(index);
  device(index).stream(stream).enqueue([=, task = std::move(task)] {
    const auto begin = std::chrono::steady_clock::now();
    if (delay.count() > 0) {
      std::this_thread::sleep_for(delay);
    }
    task();
    note({index, stream, work, begin, std::chrono::steady_clock::now()});
  });
}

std::shared_ptr<Milestone> record(c10::DeviceIndex index, c10::StreamId stream) {
  auto milestone = std::make_shared<Milestone>();
  wake_device(index);
  device(index).stream(stream).enqueue([milestone] { milestone->reach(); });
  return milestone;
}

bool is_reached(const Milestone& milestone) { return milestone.is_reached(); }

std::chrono::nanoseconds time_between(const Milestone& first, const Milestone& second) {
  return second.time() - first.time();
}

void wait(Milestone& milestone) { milestone.wait(); }

void enqueue_wait(c10::DeviceIndex index, c10::StreamId stream,
                  std::shared_ptr<Milestone> milestone) {
  device(index).stream(stream).enqueue([milestone = std::move(milestone)] { milestone->wait(); });
}

void wait_for_stream(c10::DeviceIndex index, c10::StreamId stream) {
  device(index).stream(stream).wait();
}

void wait_for_device(c10::DeviceIndex index) { device(index).wait(); }

}  // namespace reprise::testing

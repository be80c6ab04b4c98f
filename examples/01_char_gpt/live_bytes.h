// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: live_bytes.h
//
// Follows the bytes of a device's tensors through a step.
#ifndef CHAR_GPT_LIVE_BYTES_H_
#define CHAR_GPT_LIVE_BYTES_H_

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace char_gpt {

struct LiveSample {
  double time_ms = 0;      // since the recorder was made
  std::int64_t bytes = 0;  // above the bytes at that time
};

// While alive, notes the live bytes at the start and the end of every operator of every thread.
// One at a time.
class [[nodiscard]] LiveBytesRecorder {
 public:
  explicit LiveBytesRecorder(const c10::Device& device);
  ~LiveBytesRecorder();
  LiveBytesRecorder(const LiveBytesRecorder&) = delete;
  LiveBytesRecorder& operator=(const LiveBytesRecorder&) = delete;

  // Takes a sample now, and returns it.
  LiveSample sample();

  // All samples, in the order of their times.
  [[nodiscard]] std::vector<LiveSample> samples() const;

 private:
  const c10::Device device_;
  const std::int64_t start_bytes_;
  const std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  std::vector<LiveSample> samples_;
  std::uint64_t callback_ = 0;
};

}  // namespace char_gpt

#endif  // CHAR_GPT_LIVE_BYTES_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "live_bytes.h"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

#include "memory.h"

namespace char_gpt {
namespace {

// LibTorch takes plain functions as callbacks.
std::atomic<LiveBytesRecorder*> active_recorder = nullptr;

void sample_active_recorder() {
  if (LiveBytesRecorder* recorder = active_recorder.load()) {
    recorder->sample();
  }
}

std::unique_ptr<at::ObserverContext> on_operator_start(const at::RecordFunction& /*function*/) {
  sample_active_recorder();
  return nullptr;
}

void on_operator_end(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
  sample_active_recorder();
}

}  // namespace

LiveBytesRecorder::LiveBytesRecorder(const c10::Device& device)
    : device_(device),
      start_bytes_(current_bytes(device)),
      start_(std::chrono::steady_clock::now()) {
  active_recorder = this;
  callback_ =
      at::addGlobalCallback(at::RecordFunctionCallback(&on_operator_start, &on_operator_end));
}

LiveBytesRecorder::~LiveBytesRecorder() {
  at::removeCallback(callback_);
  active_recorder = nullptr;
}

LiveSample LiveBytesRecorder::sample() {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start_;
  samples_.push_back({elapsed.count(), current_bytes(device_) - start_bytes_});
  return samples_.back();
}

std::vector<LiveSample> LiveBytesRecorder::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

}  // namespace char_gpt
